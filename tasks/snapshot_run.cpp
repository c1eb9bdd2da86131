#include "tasks/snapshot_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "tasks/version.h"

namespace foregather::tasks {
namespace {

using traces::Snapshot;

/// Adds one device after the other.
class SnapshotRecorder {
 public:
  SnapshotRecorder(const Snapshot& snapshot, const MemoryReport& report)
      : snapshot_(snapshot), report_(report) {}

  run::Run record() {
    run::RunInfo info;
    info.name = report_.source.substr(report_.source.find_last_of('/') + 1);
    info.kind = run::RunKind::measured;
    info.tool = version();
    info.source = report_.source;
    info.options = alloc::to_string(report_.config);
    info.world_size = static_cast<std::uint32_t>(report_.traces.size());
    for (const MemoryTrace& trace : report_.traces)
      info.capacity = std::max(info.capacity, trace.replay.capacity.value_or(0));
    run_.info(info);
    find_first_time();
    for (const MemoryTrace& trace : report_.traces) add(trace);
    return std::move(run_);
  }

 private:
  void find_first_time() {
    if (!snapshot_.has_times) return;
    first_us_ = std::numeric_limits<std::int64_t>::max();
    for (const auto& trace : snapshot_.traces)
      if (!trace.empty()) first_us_ = std::min(first_us_, trace.front().time_us);
  }

  Ns time_of(std::size_t device, std::size_t event) const {
    if (!snapshot_.has_times) return static_cast<Ns>(event) * kMicrosecond;
    const std::int64_t us = snapshot_.traces[device][event].time_us;
    return std::clamp<std::int64_t>(us - first_us_, 0, std::int64_t{1} << 50) * kMicrosecond;
  }

  void add(const MemoryTrace& trace) {
    const alloc::Replay& replay = trace.replay;
    const run::ClassRow rank_class =
        run_.add(run::ClassInfo{run_.text(fmt::format("device {}", trace.device)),
                                {static_cast<std::uint32_t>(trace.device)}});
    run::StepInfo info;
    info.rank_class = rank_class;
    info.kind = run::StepKind::other;
    if (trace.events > 0) info.end = time_of(trace.device, trace.events - 1);
    info.host_end = info.end;
    info.peak_requested = replay.peak.requested;
    info.peak_allocated = replay.peak.allocated;
    info.peak_active = replay.peak.active;
    info.peak_reserved = replay.peak.reserved;
    const run::StepRow step = run_.add(info);
    for (const alloc::BlockLife& life : replay.lives) add_block(trace, life, step, info.end);
    run_.add(point(step, 0, replay.at_start));
    for (const alloc::CurvePoint& at : replay.curve)
      run_.add(point(step, time_of(trace.device, at.event), at.usage));
  }

  static run::MemoryRecord point(run::StepRow step, Ns time, const alloc::Usage& usage) {
    return {step, time, usage.requested, usage.allocated, usage.active, usage.reserved};
  }

  void add_block(const MemoryTrace& trace, const alloc::BlockLife& life, run::StepRow step,
                 Ns end) {
    run::BindingRecord row;
    row.step = step;
    row.name = name_of(stack_of(snapshot_, trace.device, life));
    row.bytes = life.requested;
    row.block_bytes = life.size;
    row.address = static_cast<std::uint64_t>(life.address);
    row.from_before = !life.born.has_value();
    row.still_bound = !life.freed.has_value();
    row.allocated = life.born ? time_of(trace.device, *life.born) : 0;
    row.freed = life.freed ? time_of(trace.device, *life.freed) : end;
    run_.add(row);
  }

  StringId name_of(traces::StackId stack) {
    const auto [entry, is_new] = names_.try_emplace(stack ? stack.row() : ~std::uint32_t{0});
    if (is_new) entry->second = run_.text(responsible_frame(snapshot_, stack));
    return entry->second;
  }

  const Snapshot& snapshot_;
  const MemoryReport& report_;
  run::Run run_;
  std::int64_t first_us_ = 0;
  std::unordered_map<std::uint32_t, StringId> names_;  // by stack
};

}  // namespace

run::Run snapshot_run(const Snapshot& snapshot, const MemoryReport& report) {
  return SnapshotRecorder(snapshot, report).record();
}

}  // namespace foregather::tasks
