#include "core/compare/recorded_busy.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "core/compare/intervals.h"
#include "core/run/kernel_names.h"

namespace foregather::compare {
namespace {

void add(Ns& sum, Ns time) {
  if (__builtin_add_overflow(sum, time, &sum)) sum = std::numeric_limits<Ns>::max();
}

enum class KernelClass : std::uint8_t { unknown, compute, communication };

struct DeviceIntervals {
  std::vector<Interval> all, comm, compute;
};

void measure(RecordedBusy& busy, DeviceIntervals& intervals) {
  const IntervalSet comm = united(std::move(intervals.comm));
  const IntervalSet compute = united(std::move(intervals.compute));
  busy.comm = length(comm);
  busy.compute = length(compute);
  busy.overlap = length(intersection(comm, compute));
  busy.busy = length(united(std::move(intervals.all)));
}

void add(RecordedBusy& sum, const RecordedBusy& part) {
  sum.activities += part.activities;
  sum.kernels += part.kernels;
  sum.comm_kernels += part.comm_kernels;
  for (const auto field :
       {&RecordedBusy::kernel_time, &RecordedBusy::comm_time, &RecordedBusy::comm,
        &RecordedBusy::compute, &RecordedBusy::overlap, &RecordedBusy::busy})
    add(sum.*field, part.*field);
  for (const auto& [kind, use] : part.by_kind) {
    sum.by_kind[kind].count += use.count;
    add(sum.by_kind[kind].time, use.time);
  }
}

class Measuring {
 public:
  explicit Measuring(const run::Recording& recording) : recording_(recording) {}

  RecordedFigures run() {
    const run::ActivityColumns& rows = recording_.activities;
    classes_.resize(recording_.strings.size());
    device_of_lane_.resize(recording_.lanes.size());
    stream_of_lane_.resize(recording_.lanes.size());
    for (std::size_t i = 0; i < rows.size(); ++i) activity(i);
    for (std::size_t d = 0; d < intervals_.size(); ++d) {
      measure(figures_.devices[d].busy, intervals_[d]);
      add(figures_.all, figures_.devices[d].busy);
    }
    for (std::size_t s = 0; s < figures_.streams.size(); ++s) {
      figures_.streams[s].busy = length(united(std::move(streams_[s].all)));
      figures_.streams[s].kernel_busy = length(united(std::move(streams_[s].compute)));
    }
    std::stable_sort(figures_.streams.begin(), figures_.streams.end(),
                     [](const auto& a, const auto& b) { return a.activities > b.activities; });
    figures_.duplicates = duplicate_activities(recording_);
    return std::move(figures_);
  }

 private:
  void activity(std::size_t i) {
    const run::ActivityColumns& rows = recording_.activities;
    const Interval interval{rows.start[i], rows.end[i]};
    extend(figures_.first_start, figures_.last_end, interval, i == 0);
    const std::size_t d = device(rows.lane[i]), s = stream(rows.lane[i]);
    RecordedBusy& busy = figures_.devices[d].busy;
    RecordedStream& use = figures_.streams[s];
    ++busy.activities;
    ++use.activities;
    intervals_[d].all.push_back(interval);
    streams_[s].all.push_back(interval);
    if (rows.kind[i] != run::ActivityKind::kernel) return;
    extend(figures_.first_kernel, figures_.last_kernel, interval, !has_kernel_);
    has_kernel_ = true;
    ++busy.kernels;
    ++use.kernels;
    streams_[s].compute.push_back(interval);
    const Ns time = interval.end - interval.begin;
    add(busy.kernel_time, time);
    if (!is_communication(rows.name[i])) {
      intervals_[d].compute.push_back(interval);
      return;
    }
    ++busy.comm_kernels;
    add(busy.comm_time, time);
    intervals_[d].comm.push_back(interval);
    RecordedComm& kind = busy.by_kind[run::communication_kind(recording_.text(rows.name[i]))];
    ++kind.count;
    add(kind.time, time);
  }

  static void extend(Ns& first, Ns& last, Interval interval, bool is_first) {
    first = is_first ? interval.begin : std::min(first, interval.begin);
    last = is_first ? interval.end : std::max(last, interval.end);
  }

  std::size_t device(run::LaneRow lane) {
    std::size_t& known = device_of_lane_[lane.row()];
    if (known != 0) return known - 1;
    const StringId name = recording_.lanes[lane.row()].process;
    auto found = std::find_if(figures_.devices.begin(), figures_.devices.end(),
                              [&](const RecordedDevice& device) { return device.name == name; });
    if (found == figures_.devices.end()) {
      found = figures_.devices.insert(found, RecordedDevice{name, {}});
      intervals_.emplace_back();
    }
    known = static_cast<std::size_t>(found - figures_.devices.begin()) + 1;
    return known - 1;
  }

  std::size_t stream(run::LaneRow lane) {
    std::size_t& known = stream_of_lane_[lane.row()];
    if (known == 0) {
      figures_.streams.push_back({.lane = lane});
      streams_.emplace_back();
      known = figures_.streams.size();
    }
    return known - 1;
  }

  bool is_communication(StringId name) {
    KernelClass& known = classes_[name.row()];
    if (known == KernelClass::unknown)
      known = run::is_communication_kernel(recording_.text(name)) ? KernelClass::communication
                                                                  : KernelClass::compute;
    return known == KernelClass::communication;
  }

  const run::Recording& recording_;
  RecordedFigures figures_;
  std::vector<KernelClass> classes_;                          // by name
  std::vector<std::size_t> device_of_lane_, stream_of_lane_;  // row + 1
  std::vector<DeviceIntervals> intervals_, streams_;          // by device, by stream
  bool has_kernel_ = false;
};

}  // namespace

std::int64_t duplicate_activities(const run::Recording& recording) {
  const run::ActivityColumns& rows = recording.activities;
  std::vector<std::uint32_t> order(rows.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto key = [&](std::uint32_t i) {
    return std::tuple(rows.start[i], rows.end[i], rows.lane[i], rows.name[i]);
  };
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return key(a) < key(b); });
  std::int64_t duplicates = 0;
  for (std::size_t i = 1; i < order.size(); ++i)
    duplicates += key(order[i]) == key(order[i - 1]) ? 1 : 0;
  return duplicates;
}

RecordedFigures recorded_figures(const run::Recording& recording) {
  return Measuring(recording).run();
}

}  // namespace foregather::compare
