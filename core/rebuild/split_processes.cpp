#include "core/rebuild/split_processes.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>
#include <utility>

namespace foregather::rebuild {
namespace {

/// Copies the rows whose part is that one.
class Keep {
 public:
  Keep(std::vector<std::uint32_t> part_of, std::uint32_t part)
      : part_of_(std::move(part_of)), part_(part) {}

  template <class T>
  void operator()(const std::vector<T>& from, std::vector<T>& to) const {
    if (from.size() != part_of_.size()) return;  // one that the reader does not fill
    for (std::size_t row = 0; row < from.size(); ++row)
      if (part_of_[row] == part_) to.push_back(from[row]);
  }

 private:
  std::vector<std::uint32_t> part_of_;
  std::uint32_t part_;
};

/// All but the rows, and but what was counted in the file.
run::Recording head_of(const run::Recording& whole) {
  run::Recording head;
  head.source = whole.source;
  head.is_predicted = whole.is_predicted;
  head.is_part = true;
  head.strings = whole.strings;
  head.lanes = whole.lanes;
  head.labels = whole.labels;
  head.collectives = whole.collectives;
  head.correlations = whole.correlations;
  head.externals = whole.externals;
  head.base = whole.base;
  head.world_size = whole.world_size;
  head.group_sizes = whole.group_sizes;
  head.backend = whole.backend;
  head.devices = whole.devices;
  return head;
}

class Splitting {
 public:
  explicit Splitting(const run::Recording& whole) : whole_(whole) {
    launched_by_.resize(whole.correlations);
    for (std::size_t i = 0; i < whole.calls.size(); ++i)
      if (const run::CorrelationId id = whole.calls.correlation[i])
        launched_by_[id.row()] = process(whole.calls.lane[i]);
    for (std::size_t i = 0; i < whole.activities.size(); ++i)
      if (const StringId by = worker(whole.activities, i))
        ++work_[by][process(whole.activities.lane[i])];
    number_parts();
  }

  std::uint32_t parts() const { return static_cast<std::uint32_t>(part_of_.size()); }

  run::Recording part(std::uint32_t part) const {
    run::Recording out = head_of(whole_);
    keep_activities(part, out);
    keep_calls(part, out.calls);
    keep_ranges(part, out.ranges);
    keep_syncs(part, out.syncs);
    keep_memory(part, out.memory);
    return out;
  }

 private:
  void keep_activities(std::uint32_t part, run::Recording& out) const {
    const run::ActivityColumns& from = whole_.activities;
    run::ActivityColumns& to = out.activities;
    const Keep keep(of_device(from), part);
    keep(from.lane, to.lane);
    keep(from.kind, to.kind);
    keep(from.name, to.name);
    keep(from.start, to.start);
    keep(from.end, to.end);
    keep(from.correlation, to.correlation);
    keep(from.external, to.external);
    keep(from.bytes, to.bytes);
    keep(from.threads, to.threads);
    keep(from.collective, to.collective);
    const run::KnownOps& known = whole_.known;
    keep(known.micro_batch, out.known.micro_batch);
    keep(known.ordinal, out.known.ordinal);
    keep(known.operators, out.known.operators);
    keep(known.kind, out.known.kind);
    keep(known.phase, out.known.phase);
    keep(known.scope, out.known.scope);
    keep(known.bytes, out.known.bytes);
    keep(known.wire_bytes, out.known.wire_bytes);
    keep(known.flops, out.known.flops);
  }
  void keep_calls(std::uint32_t part, run::CallColumns& to) const {
    const run::CallColumns& from = whole_.calls;
    const Keep keep(of_host(from.lane), part);
    keep(from.lane, to.lane);
    keep(from.name, to.name);
    keep(from.start, to.start);
    keep(from.end, to.end);
    keep(from.correlation, to.correlation);
    keep(from.external, to.external);
  }
  void keep_ranges(std::uint32_t part, run::RangeColumns& to) const {
    const run::RangeColumns& from = whole_.ranges;
    const Keep keep(of_host(from.lane), part);
    keep(from.lane, to.lane);
    keep(from.kind, to.kind);
    keep(from.name, to.name);
    keep(from.start, to.start);
    keep(from.end, to.end);
    keep(from.external, to.external);
    keep(from.sequence, to.sequence);
    keep(from.is_backward, to.is_backward);
    keep(from.collective, to.collective);
    keep(from.shapes, to.shapes);
    keep(from.types, to.types);
    keep(from.values, to.values);
  }
  void keep_syncs(std::uint32_t part, run::SyncColumns& to) const {
    const run::SyncColumns& from = whole_.syncs;
    const Keep keep(of_device(from), part);
    keep(from.lane, to.lane);
    keep(from.name, to.name);
    keep(from.start, to.start);
    keep(from.end, to.end);
    keep(from.correlation, to.correlation);
    keep(from.recorded, to.recorded);
    keep(from.awaited_stream, to.awaited_stream);
  }
  void keep_memory(std::uint32_t part, run::MemoryColumns& to) const {
    const run::MemoryColumns& from = whole_.memory;
    const Keep keep(of_host(from.lane), part);
    keep(from.lane, to.lane);
    keep(from.device, to.device);
    keep(from.time, to.time);
    keep(from.address, to.address);
    keep(from.bytes, to.bytes);
    keep(from.total_allocated, to.total_allocated);
    keep(from.total_reserved, to.total_reserved);
  }

  StringId process(run::LaneRow lane) const {
    return lane ? whole_.lanes[lane.row()].process : StringId();
  }
  // Absent: the recording does not say it.
  template <class Columns>
  StringId worker(const Columns& rows, std::size_t row) const {
    if (row < rows.process.size() && rows.process[row]) return rows.process[row];
    const run::CorrelationId id = rows.correlation[row];
    return id ? launched_by_[id.row()] : StringId();
  }
  std::uint64_t number_of(StringId device_or_process) const {
    const std::string_view text = whole_.text(device_or_process);
    std::uint64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  }

  void number_parts() {
    struct Process {
      std::uint64_t device;
      StringId id;
    };
    std::vector<Process> processes;
    std::map<StringId, std::pair<bool, std::size_t>> most;  // by device: of its user
    for (const auto& [id, devices] : work_) {
      const StringId main =
          std::ranges::max_element(devices, {}, [](const auto& use) { return use.second; })->first;
      processes.push_back({number_of(main), id});
      for (const auto& [device, count] : devices) {
        const std::pair use{device == main, count};
        if (use <= most[device]) continue;
        most[device] = use;
        user_of_[device] = id;
      }
    }
    std::ranges::sort(processes, [&](const Process& a, const Process& b) {
      return std::tuple(a.device, number_of(a.id), whole_.text(a.id)) <
             std::tuple(b.device, number_of(b.id), whole_.text(b.id));
    });
    for (const Process& process : processes)
      part_of_.emplace(process.id, static_cast<std::uint32_t>(part_of_.size()));
  }

  std::uint32_t part_of(StringId process) const {
    const auto found = part_of_.find(process);
    return found == part_of_.end() ? 0 : found->second;
  }
  std::vector<std::uint32_t> of_host(const std::vector<run::LaneRow>& lanes) const {
    std::vector<std::uint32_t> parts;
    for (const run::LaneRow lane : lanes) parts.push_back(part_of(process(lane)));
    return parts;
  }
  template <class Columns>
  std::vector<std::uint32_t> of_device(const Columns& rows) const {
    std::vector<std::uint32_t> parts;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      StringId by = worker(rows, i);
      if (!by)
        if (const auto user = user_of_.find(process(rows.lane[i])); user != user_of_.end())
          by = user->second;
      parts.push_back(part_of(by));
    }
    return parts;
  }

  const run::Recording& whole_;
  std::vector<StringId> launched_by_;                         // by correlation
  std::map<StringId, std::map<StringId, std::size_t>> work_;  // by process and device
  std::map<StringId, StringId> user_of_;                      // by device
  std::map<StringId, std::uint32_t> part_of_;                 // by process
};

}  // namespace

std::vector<std::shared_ptr<const run::Recording>> split_processes(
    std::shared_ptr<const run::Recording> recording) {
  const Splitting splitting(*recording);
  if (splitting.parts() < 2) return {std::move(recording)};
  std::vector<std::shared_ptr<const run::Recording>> parts;
  for (std::uint32_t part = 0; part < splitting.parts(); ++part)
    parts.push_back(std::make_shared<run::Recording>(splitting.part(part)));
  return parts;
}

}  // namespace foregather::rebuild
