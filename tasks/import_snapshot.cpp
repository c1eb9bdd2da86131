#include <memory>

#include "core/base/text.h"
#include "tasks/import_parts.h"
#include "tasks/importers.h"
#include "traces/pickle.h"
#include "traces/snapshot.h"
#include "traces/snapshot_facts.h"

namespace foregather::tasks {
namespace {

using traces::Snapshot;
using traces::SnapshotFacts;
using traces::SnapshotHistory;

template <class Enum, std::size_t kCount>
void write_named_counts(JsonWriter& json, std::string_view key,
                        const std::array<std::int64_t, kCount>& counts) {
  json.key(key).begin_object();
  for (std::size_t i = 0; i < kCount; ++i)
    if (counts[i] != 0) json.field(name_of(static_cast<Enum>(i)), counts[i]);
  json.end_object();
}

template <class Values>
void write_list(JsonWriter& json, std::string_view key, const Values& values) {
  json.key(key).begin_array();
  for (const auto& value : values) json.value(value);
  json.end_array();
}

void write_option(JsonWriter& json, const traces::SnapshotOption& option) {
  json.key(option.name);
  if (const auto* const large = std::get_if<std::uint64_t>(&option.value))
    json.raw(std::to_string(*large));
  else if (const auto* const flag = std::get_if<bool>(&option.value))
    json.value(*flag);
  else if (const auto* const number = std::get_if<std::int64_t>(&option.value))
    json.value(*number);
  else if (const auto* const real = std::get_if<double>(&option.value))
    json.value(*real);
  else
    json.value(std::get<std::string>(option.value));
}

// Options of one group stand together, as in the file.
void write_settings(JsonWriter& json, const Snapshot& snapshot) {
  json.key("allocator_settings");
  if (!snapshot.settings) {
    json.null();
    return;
  }
  json.begin_object();
  std::string group;
  for (const traces::SnapshotOption& option : snapshot.settings->all) {
    if (option.group != group && !group.empty()) json.end_object();
    if (option.group != group && !option.group.empty()) json.key(option.group).begin_object();
    group = option.group;
    write_option(json, option);
  }
  if (!group.empty()) json.end_object();
  json.end_object();
}

void write_history(JsonWriter& json, const SnapshotHistory& history, bool has_times) {
  json.begin_object().field("device", history.device).field("events", history.events);
  write_named_counts<traces::SnapshotAction>(json, "actions", history.actions);
  json.field("streams", history.streams)
      .field("with_frames", history.with_frames)
      .field("has_time_us", has_times)
      .field("span_us", history.span_us)
      .field("oom", history.actions[static_cast<std::size_t>(traces::SnapshotAction::oom)])
      .field("frees_of_unseen_addr", history.unseen_frees)
      .field("base_active_before_window", history.before)
      .field("end_active", history.at_end)
      .field("peak_active_reconstructed", history.peak)
      .field("peak_live_from_trace_only", history.peak_seen)
      .field("peak_segments_from_trace", history.peak_segments)
      .end_object();
}

void write_facts(JsonWriter& json, const Snapshot& snapshot, const SnapshotFacts& facts,
                 Bytes file_bytes) {
  json.field("format", "memory-snapshot")
      .field("bytes", file_bytes)
      .field("raw_bytes", snapshot.bytes)
      .field("pickle_protocol", snapshot.protocol);
  write_list(json, "keys", snapshot.keys);
  write_settings(json, snapshot);
  json.field("segments", snapshot.segments.size()).field("blocks", facts.blocks);
  write_named_counts<traces::SnapshotState>(json, "block_states", facts.states);
  json.field("expandable_segments", facts.is_expandable)
      .field("seg_total_bytes", facts.reserved)
      .field("seg_active_bytes", facts.active)
      .field("seg_allocated_bytes", facts.allocated)
      .field("seg_streams", facts.streams.size());
  write_list(json, "seg_devices", facts.devices);
  json.field("device_traces", snapshot.traces.size());
  json.key("trace_events").begin_array();
  for (const auto& events : snapshot.traces) json.value(events.size());
  json.end_array();
  json.key("per_device").begin_array();
  for (const SnapshotHistory& history : facts.histories)
    write_history(json, history, snapshot.has_times);
  json.end_array();
}

void describe(ImportedFile& file, const Snapshot& snapshot, const SnapshotFacts& facts) {
  file.rows.push_back({"segments",
                       format_count(static_cast<std::int64_t>(snapshot.segments.size())),
                       format_bytes(facts.reserved)});
  file.rows.push_back({"blocks", format_count(static_cast<std::int64_t>(facts.blocks)),
                       fmt::format("{} allocated at the end", format_bytes(facts.allocated))});
  for (const SnapshotHistory& history : facts.histories)
    file.rows.push_back(
        {fmt::format("events of device {}", history.device), format_count(history.events),
         fmt::format("{} active at the most{}", format_bytes(history.peak),
                     snapshot.has_times ? ", over " + format_time(history.span_us * kMicrosecond)
                                        : std::string())});
}

Result<ImportedFile> import_snapshot(const ImportSource& source) {
  auto read = traces::read_snapshot(source.member, source.text);
  if (!read) return tl::unexpected(read.error());
  const auto snapshot = std::make_shared<const Snapshot>(std::move(*read));
  const auto facts = std::make_shared<const SnapshotFacts>(traces::snapshot_facts(*snapshot));
  ImportedFile file;
  file.what = "PyTorch memory snapshot, which 'foregather memory' replays";
  file.snapshot = snapshot;
  describe(file, *snapshot, *facts);
  file.write_json = [snapshot, facts, bytes = source.file_bytes](JsonWriter& json) {
    write_facts(json, *snapshot, *facts, bytes);
  };
  return file;
}

}  // namespace

const Importer kSnapshotImporter{"a PyTorch memory snapshot (pickle)", traces::is_pickle,
                                 import_snapshot, false};

}  // namespace foregather::tasks
