#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "core/base/text.h"
#include "core/compare/recorded_busy.h"
#include "core/rebuild/host_collectives.h"
#include "tasks/import_parts.h"
#include "tasks/importers.h"
#include "traces/kineto.h"

namespace foregather::tasks {
namespace {

constexpr std::size_t kListedStreams = 40;

std::string lane_key(const run::Recording& recording, run::LaneRow row) {
  const run::Lane& lane = recording.lanes[row.row()];
  return fmt::format("{}/{}", recording.text(lane.process), recording.text(lane.thread));
}

void write_busy(JsonWriter& json, const compare::RecordedFigures& figures) {
  const compare::RecordedBusy& all = figures.all;
  json.field("kernels", all.kernels)
      .field("comm_kernels", all.comm_kernels)
      .field("gpu_events", all.activities)
      .field("duplicate_gpu_events", figures.duplicates)
      .field("kernel_time_sum_us", microseconds(all.kernel_time))
      .field("comm_time_sum_us", microseconds(all.comm_time))
      .field("comm_union_us", microseconds(all.comm))
      .field("compute_union_us", microseconds(all.compute))
      .field("overlap_us", microseconds(all.overlap))
      .field("exposed_comm_us", microseconds(all.exposed()))
      .field("gpu_busy_union_us", microseconds(all.busy));
  json.key("overlap_pct");
  write_percent(json, all.overlap, all.comm);
  json.key("comm_kinds").begin_object();
  for (const auto& [kind, use] : all.by_kind) {
    json.key(kind).begin_array().value(use.count).value(microseconds(use.time)).end_array();
  }
  json.end_object();
  json.field("gpu_span_us", microseconds(figures.last_end - figures.first_start));
}

void write_streams(JsonWriter& json, const run::Recording& recording,
                   const compare::RecordedFigures& figures) {
  json.key("streams").begin_object();
  for (std::size_t i = 0; i < std::min(kListedStreams, figures.streams.size()); ++i) {
    const compare::RecordedStream& stream = figures.streams[i];
    json.key(lane_key(recording, stream.lane))
        .begin_object()
        .field("n", stream.activities)
        .field("busy_us", microseconds(stream.busy))
        .end_object();
  }
  json.end_object();
}

// In order of issue, so that two lists may be held against each other.
void write_collectives(JsonWriter& json, const std::vector<rebuild::HostCollective>& list) {
  json.key("collective_keys").begin_array();
  for (const rebuild::HostCollective& row : list) {
    json.begin_object();
    json.key("step");
    if (row.step)
      json.value(*row.step);
    else
      json.null();
    json.field("scope", row.scope.empty() ? "-" : row.scope)
        .field("phase", name(row.phase))
        .field("kind", name(row.kind));
    json.key("bytes");
    if (row.bytes)
      json.value(*row.bytes);
    else
      json.null();
    json.field("dtype", row.dtype).field("group", row.group);
    json.key("ranks");
    if (row.ranks > 0)
      json.value(std::int64_t{row.ranks});
    else
      json.null();
    json.end_object();
  }
  json.end_array();
}

std::string counts_of(const std::vector<rebuild::HostCollective>& list) {
  std::map<OpKind, std::int64_t> counts;
  for (const rebuild::HostCollective& row : list) ++counts[row.kind];
  std::string text;
  for (const auto& [kind, n] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name(kind), format_count(n));
  return text;
}

struct ImportedTrace {
  traces::KinetoFacts facts;
  compare::RecordedFigures figures;
  MemoryUses memory;
  std::vector<rebuild::HostCollective> collectives;  // of the recording's texts
  std::string archive;                               // of a member: its file
  Bytes file_bytes = 0;
};

void write_steps(JsonWriter& json, const traces::KinetoFacts& facts) {
  json.key("steps").begin_array();
  for (const auto& [number, length] : facts.steps) json.value(number);
  json.end_array();
  json.key("step_us").begin_object();
  for (const auto& [number, length] : facts.steps)
    json.field(std::to_string(number), microseconds(length));
  json.end_object();
}

void write_trace(JsonWriter& json, const run::Recording& recording, const ImportedTrace& imported) {
  const traces::KinetoFacts& facts = imported.facts;
  json.field("format", "kineto").field("bytes", imported.file_bytes);
  json.field(imported.archive.empty() ? "raw_bytes" : "json_bytes", facts.text_bytes);
  json.key("top_keys").begin_array();
  for (const std::string& key : facts.top_keys) json.value(key);
  json.end_array();
  for (const auto& [key, text] : facts.copied) json.key(key).raw(text);
  if (!facts.distributed.empty()) {
    json.key("dist").begin_object();
    for (const auto& [key, text] : facts.distributed) json.key(key).raw(text);
    json.end_object();
  }
  json.key("n_pgs");
  if (facts.process_groups)
    json.value(*facts.process_groups);
  else
    json.null();
  json.field("n_devices", facts.machine_devices);
  json.key("gpus").begin_array();
  for (const std::string& name : std::set(recording.devices.begin(), recording.devices.end()))
    json.value(name);
  json.end_array();
}

Result<ImportedFile> import_kineto(const ImportSource& source) {
  auto trace = traces::read_kineto(source.text, source.member.name);
  if (!trace) return tl::unexpected(trace.error());
  ImportedFile file;
  auto imported = std::make_shared<ImportedTrace>();
  imported->facts = std::move(trace->facts);
  imported->figures = compare::recorded_figures(trace->recording);
  imported->memory = memory_uses(trace->recording);
  imported->file_bytes = source.file_bytes;
  const auto bang = source.member.name.find('!');
  if (bang != std::string::npos) imported->archive = source.member.name.substr(0, bang);
  take_accounts(file, trace->recording, imported->figures.duplicates);
  const auto recording = std::make_shared<const run::Recording>(std::move(trace->recording));
  file.recording = recording;
  imported->collectives = rebuild::host_collectives(*recording);

  const compare::RecordedBusy& busy = imported->figures.all;
  file.what = recording->is_predicted ? "exported prediction" : "torch.profiler trace";
  const std::string rank = recording->rank ? fmt::format("rank {}", *recording->rank) : "";
  file.rows.push_back({"events", format_count(imported->facts.events), rank});
  file.rows.push_back({"kernels", format_count(busy.kernels),
                       fmt::format("{} of communication", format_count(busy.comm_kernels))});
  const auto devices = std::ranges::count_if(
      imported->figures.devices, [](const auto& device) { return device.busy.activities > 0; });
  file.rows.push_back({"device span",
                       format_time(imported->figures.last_end - imported->figures.first_start),
                       fmt::format("busy {}", format_time(busy.busy)) +
                           (devices > 1 ? fmt::format(", {} devices added up", devices) : "")});
  file.rows.push_back({"compute", format_time(busy.compute), ""});
  file.rows.push_back({"communication", format_time(busy.comm),
                       fmt::format("exposed {}", format_time(busy.exposed()))});
  if (!imported->collectives.empty())
    file.rows.push_back(
        {"collectives", format_count(static_cast<std::int64_t>(imported->collectives.size())),
         counts_of(imported->collectives) +
             (imported->collectives.size() < static_cast<std::size_t>(busy.comm_kernels)
                  ? "; the host describes no others"
                  : "")});
  for (const auto& [number, length] : imported->facts.steps)
    file.rows.push_back({fmt::format("step {}", number), format_time(length), ""});
  describe_memory(file, imported->memory);

  file.write_json = [imported, recording](JsonWriter& json) {
    write_trace(json, *recording, *imported);
    const traces::KinetoFacts& facts = imported->facts;
    json.field("events", facts.events);
    write_counts(json, "cats", facts.categories);
    write_counts(json, "ph", facts.phases);
    write_busy(json, imported->figures);
    write_streams(json, *recording, imported->figures);
    json.field("span_us", microseconds(facts.last_end - facts.first_start));
    write_steps(json, facts);
    write_counts(json, "collective_args", facts.collectives);
    write_collectives(json, imported->collectives);
    json.field("memory_events", facts.memory_events);
    write_memory(json, imported->memory);
  };
  return file;
}

}  // namespace

const Importer kKinetoImporter{"a torch.profiler trace (JSON)", traces::is_chrome_json,
                               import_kineto};

}  // namespace foregather::tasks
