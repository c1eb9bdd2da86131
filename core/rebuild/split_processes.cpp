#include "core/rebuild/split_processes.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

namespace foregather::rebuild {
namespace {

/// Keeps the rows whose part is that one.
class Keep {
 public:
  Keep(const std::vector<std::uint32_t>& part_of, std::uint32_t part)
      : part_of_(part_of), part_(part) {}

  template <class... Columns>
  void operator()(Columns&... columns) const {
    (one(columns), ...);
  }

 private:
  template <class T>
  void one(std::vector<T>& column) const {
    if (column.size() != part_of_.size()) return;  // one that the reader does not fill
    std::size_t kept = 0;
    for (std::size_t row = 0; row < column.size(); ++row)
      if (part_of_[row] == part_) column[kept++] = column[row];
    column.resize(kept);
  }

  const std::vector<std::uint32_t>& part_of_;
  std::uint32_t part_;
};

class Splitting {
 public:
  explicit Splitting(const run::Recording& whole) : whole_(whole) {
    launched_by_.resize(whole.correlations);
    for (std::size_t i = 0; i < whole.calls.size(); ++i)
      if (const run::CorrelationId id = whole.calls.correlation[i])
        launched_by_[id.row()] = process(whole.calls.lane[i]);
    for (std::size_t i = 0; i < whole.activities.size(); ++i)
      if (const StringId by = launcher(whole.activities.correlation[i]))
        ++work_[by][process(whole.activities.lane[i])];
    number_parts();
  }

  std::uint32_t parts() const { return static_cast<std::uint32_t>(part_of_.size()); }

  run::Recording part(std::uint32_t part) const {
    run::Recording out = whole_;
    out.is_part = true;
    {
      run::ActivityColumns& rows = out.activities;
      Keep(of_device(rows.lane, rows.correlation), part)(
          rows.lane, rows.kind, rows.name, rows.start, rows.end, rows.correlation, rows.external,
          rows.bytes, rows.threads, rows.collective);
    }
    {
      run::CallColumns& rows = out.calls;
      Keep(of_host(rows.lane), part)(rows.lane, rows.name, rows.start, rows.end, rows.correlation,
                                     rows.external);
    }
    {
      run::RangeColumns& rows = out.ranges;
      Keep(of_host(rows.lane), part)(rows.lane, rows.kind, rows.name, rows.start, rows.end,
                                     rows.external, rows.sequence, rows.is_backward,
                                     rows.collective, rows.shapes, rows.types, rows.values);
    }
    {
      run::SyncColumns& rows = out.syncs;
      Keep(of_device(rows.lane, rows.correlation), part)(rows.lane, rows.name, rows.start, rows.end,
                                                         rows.correlation, rows.recorded,
                                                         rows.awaited_stream);
    }
    {
      run::MemoryColumns& rows = out.memory;
      Keep(of_host(rows.lane), part)(rows.lane, rows.device, rows.time, rows.address, rows.bytes,
                                     rows.total_allocated, rows.total_reserved);
    }
    return out;
  }

 private:
  StringId process(run::LaneRow lane) const {
    return lane ? whole_.lanes[lane.row()].process : StringId();
  }
  StringId launcher(run::CorrelationId id) const {
    return id ? launched_by_[id.row()] : StringId();
  }
  std::uint64_t device_number(StringId device) const {
    const std::string_view text = whole_.text(device);
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
      processes.push_back({device_number(main), id});
      for (const auto& [device, count] : devices) {
        const std::pair use{device == main, count};
        if (use <= most[device]) continue;
        most[device] = use;
        user_of_[device] = id;
      }
    }
    std::ranges::sort(processes, [&](const Process& a, const Process& b) {
      return std::pair(a.device, whole_.text(a.id)) < std::pair(b.device, whole_.text(b.id));
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
  std::vector<std::uint32_t> of_device(const std::vector<run::LaneRow>& lanes,
                                       const std::vector<run::CorrelationId>& launches) const {
    std::vector<std::uint32_t> parts;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      StringId by = launcher(launches[i]);
      if (!by)
        if (const auto user = user_of_.find(process(lanes[i])); user != user_of_.end())
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
