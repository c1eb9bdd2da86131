#include "core/rebuild/processes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/rebuild/split_processes.h"

namespace foregather::rebuild {
namespace {

using RecordingPointer = std::shared_ptr<const run::Recording>;

/// Puts the rows of one recording behind those of another.
class Appending {
 public:
  Appending(run::Recording& into, const run::Recording& from)
      : into_(into), from_(from), shift_(from.base - into.base) {
    std::map<std::pair<StringId, StringId>, run::LaneRow> known;
    for (std::size_t i = 0; i < into.lanes.size(); ++i)
      known.try_emplace({into.lanes[i].process, into.lanes[i].thread}, i);
    for (const run::Lane& lane : from.lanes) {
      const run::Lane named{text(lane.process), text(lane.thread)};
      const auto [row, is_new] =
          known.try_emplace({named.process, named.thread}, into.lanes.size());
      if (is_new) into.lanes.push_back(named);
      lanes_.push_back(row->second);
    }
    for (const run::RecordedCollective& said : from.collectives) {
      run::RecordedCollective copy = said;
      for (StringId* id : {&copy.name, &copy.dtype, &copy.group, &copy.ranks}) *id = text(*id);
      collectives_.emplace_back(into.collectives.size());
      into.collectives.push_back(copy);
    }
  }

  void append() {
    into_.known = {};  // it would have to know the ops of both
    into_.activities.process.clear();
    into_.syncs.process.clear();
    append_activities();
    append_calls();
    append_ranges();
    append_syncs();
    append_memory();
    into_.correlations += from_.correlations;
    into_.externals += from_.externals;
    into_.rows.read += from_.rows.read;
    into_.rows.kept += from_.rows.kept;
    for (const auto& [word, n] : from_.rows.unused) run::count(into_.rows.unused, word, n);
    for (const auto& [word, n] : from_.dropped) run::count(into_.dropped, word, n);
    for (const std::string& device : from_.devices)
      if (std::find(into_.devices.begin(), into_.devices.end(), device) == into_.devices.end())
        into_.devices.push_back(device);
    into_.warnings.insert(into_.warnings.end(), from_.warnings.begin(), from_.warnings.end());
  }

 private:
  StringId text(StringId id) { return id ? into_.strings.intern(from_.text(id)) : StringId(); }
  run::LaneRow lane(run::LaneRow row) const { return lanes_[row.row()]; }
  run::CorrelationId correlation(run::CorrelationId id) const {
    return id ? run::CorrelationId(id.row() + into_.correlations) : id;
  }
  run::ExternalId external(run::ExternalId id) const {
    return id ? run::ExternalId(id.row() + into_.externals) : id;
  }
  run::CollectiveRow collective(run::CollectiveRow row) const {
    return row ? collectives_[row.row()] : row;
  }

  void append_activities() {
    run::ActivityColumns& to = into_.activities;
    const run::ActivityColumns& rows = from_.activities;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      to.lane.push_back(lane(rows.lane[i]));
      to.kind.push_back(rows.kind[i]);
      to.name.push_back(text(rows.name[i]));
      to.start.push_back(rows.start[i] + shift_);
      to.end.push_back(rows.end[i] + shift_);
      to.correlation.push_back(correlation(rows.correlation[i]));
      to.external.push_back(external(rows.external[i]));
      to.bytes.push_back(rows.bytes[i]);
      to.threads.push_back(rows.threads[i]);
      to.collective.push_back(collective(rows.collective[i]));
    }
  }

  void append_calls() {
    run::CallColumns& to = into_.calls;
    const run::CallColumns& rows = from_.calls;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      to.lane.push_back(lane(rows.lane[i]));
      to.name.push_back(text(rows.name[i]));
      to.start.push_back(rows.start[i] + shift_);
      to.end.push_back(rows.end[i] + shift_);
      to.correlation.push_back(correlation(rows.correlation[i]));
      to.external.push_back(external(rows.external[i]));
    }
  }

  void append_ranges() {
    run::RangeColumns& to = into_.ranges;
    const run::RangeColumns& rows = from_.ranges;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      to.lane.push_back(lane(rows.lane[i]));
      to.kind.push_back(rows.kind[i]);
      to.name.push_back(text(rows.name[i]));
      to.start.push_back(rows.start[i] + shift_);
      to.end.push_back(rows.end[i] + shift_);
      to.external.push_back(external(rows.external[i]));
      to.sequence.push_back(rows.sequence[i]);
      to.is_backward.push_back(rows.is_backward[i]);
      to.collective.push_back(collective(rows.collective[i]));
      to.shapes.push_back(text(rows.shapes[i]));
      to.types.push_back(text(rows.types[i]));
      to.values.push_back(text(rows.values[i]));
    }
  }

  void append_syncs() {
    run::SyncColumns& to = into_.syncs;
    const run::SyncColumns& rows = from_.syncs;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      to.lane.push_back(lane(rows.lane[i]));
      to.name.push_back(text(rows.name[i]));
      to.start.push_back(rows.start[i] + shift_);
      to.end.push_back(rows.end[i] + shift_);
      to.correlation.push_back(correlation(rows.correlation[i]));
      to.recorded.push_back(correlation(rows.recorded[i]));
      to.awaited_stream.push_back(text(rows.awaited_stream[i]));
    }
  }

  void append_memory() {
    run::MemoryColumns& to = into_.memory;
    const run::MemoryColumns& rows = from_.memory;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      to.lane.push_back(rows.lane[i] ? lane(rows.lane[i]) : run::LaneRow());
      to.device.push_back(text(rows.device[i]));
      to.time.push_back(rows.time[i] + shift_);
      to.address.push_back(rows.address[i]);
      to.bytes.push_back(rows.bytes[i]);
      to.total_allocated.push_back(rows.total_allocated[i]);
      to.total_reserved.push_back(rows.total_reserved[i]);
    }
  }

  run::Recording& into_;
  const run::Recording& from_;
  Ns shift_;
  std::vector<run::LaneRow> lanes_;
  std::vector<run::CollectiveRow> collectives_;
};

bool is_raw(const run::Recording& recording) { return !recording.host.empty(); }

// The rank that a process counts as; nothing: those of its host that have none.
std::optional<std::uint32_t> rank_of(const run::Recording& process,
                                     std::span<const RecordingPointer> all) {
  if (process.rank || process.activities.size() > 0) return process.rank;
  std::optional<std::uint32_t> lowest;
  for (const RecordingPointer& other : all)
    if (other->host == process.host && other->rank)
      lowest = std::min(lowest.value_or(*other->rank), *other->rank);
  return lowest;
}

}  // namespace

std::vector<RecordingPointer> one_a_rank(std::span<const RecordingPointer> files) {
  std::vector<RecordingPointer> recordings;
  for (const RecordingPointer& file : files)
    if (is_raw(*file) || file->rank)
      recordings.push_back(file);
    else
      std::ranges::move(split_processes(file), std::back_inserter(recordings));
  std::vector<std::vector<RecordingPointer>> groups;
  std::map<std::pair<std::optional<std::uint32_t>, std::string>, std::size_t> group_of;
  for (const RecordingPointer& recording : recordings) {
    std::size_t group = groups.size();
    if (is_raw(*recording)) {
      const auto rank = rank_of(*recording, recordings);
      group = group_of.try_emplace({rank, rank ? "" : recording->host}, group).first->second;
    }
    if (group == groups.size()) groups.emplace_back();
    groups[group].push_back(recording);
  }
  std::vector<RecordingPointer> joined;
  for (std::vector<RecordingPointer>& parts : groups) {
    // The process that works on a device gives the name and the clock.
    std::stable_partition(parts.begin(), parts.end(),
                          [](const RecordingPointer& part) { return part->activities.size() > 0; });
    if (parts.size() == 1) {
      joined.push_back(parts.front());
      continue;
    }
    auto whole = std::make_shared<run::Recording>(*parts.front());
    for (std::size_t i = 1; i < parts.size(); ++i) {
      Appending(*whole, *parts[i]).append();
      if (!whole->rank) whole->rank = parts[i]->rank;
      if (!whole->world_size) whole->world_size = parts[i]->world_size;
    }
    joined.push_back(std::move(whole));
  }
  // Shells name files in another order (rank10 before rank2). Ranks that no file says follow from
  // it.
  const auto rank = [](const RecordingPointer& recording) { return recording->rank; };
  if (std::ranges::all_of(joined, [&](const auto& each) { return rank(each).has_value(); }))
    std::ranges::stable_sort(joined, {}, rank);
  return joined;
}

}  // namespace foregather::rebuild
