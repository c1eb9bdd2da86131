#include "tasks/snapshot_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "core/alloc/recorded_arenas.h"
#include "core/alloc/rounding.h"
#include "tasks/version.h"

namespace foregather::tasks {
namespace {

using traces::Snapshot;

/// Adds one device after the other.
class SnapshotRecorder {
 public:
  SnapshotRecorder(const Snapshot& snapshot, std::span<const DeviceRecording> devices,
                   const MemoryReport& report)
      : snapshot_(snapshot), devices_(devices), report_(report) {}

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
    info.warnings = report_.warnings;
    run_.info(info);
    find_first_time();
    for (std::size_t i = 0; i < devices_.size(); ++i) add(report_.traces[i], devices_[i].recording);
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

  void add(const MemoryTrace& trace, const alloc::Recording& recording) {
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
    first_stream_ = run_.streams.size();
    for (const std::uint64_t handle : recording.streams)
      run_.add(run::StreamInfo{rank_class, run_.text(fmt::format("stream {:#x}", handle)), 0});
    const run::StepRow step = run_.add(info);
    add_segments(trace, recording, step);
    for (const alloc::BlockLife& life : replay.lives) add_block(trace, life, step, info.end);
    run_.add(point(step, 0, replay.at_start));
    for (const alloc::CurvePoint& at : replay.curve)
      run_.add(point(step, time_of(trace.device, at.event), at.usage));
  }

  static run::MemoryRecord point(run::StepRow step, Ns time, const alloc::Usage& usage) {
    return {step, time, usage.requested, usage.allocated, usage.active, usage.reserved};
  }

  void add_segments(const MemoryTrace& trace, const alloc::Recording& recording,
                    run::StepRow step) {
    run::SegmentRecord row;
    row.step = step;
    for (const alloc::SegmentLayout& segment : trace.replay.start.layout) {
      row.stream = run::StreamRow(first_stream_ + segment.stream.row());
      row.large = segment.kind == alloc::PoolKind::large;
      row.expandable = segment.expandable;
      row.bytes = 0;
      for (const alloc::BlockLayout& block : segment.blocks) {
        const bool is_mapped = block.state != alloc::BlockState::unmapped;
        if (row.bytes == 0) row.address = static_cast<std::uint64_t>(block.address);
        if (is_mapped) row.bytes += block.size;
        if (is_mapped || row.bytes == 0) continue;
        run_.add(row);
        row.bytes = 0;
      }
      if (row.bytes > 0) run_.add(row);
    }
    const alloc::RecordedArenas arenas(recording);
    for (std::size_t at = 0; at < recording.events.size(); ++at)
      add_change(recording.events[at], arenas, at, time_of(trace.device, at), step);
  }

  void add_change(const alloc::RecordedEvent& event, const alloc::RecordedArenas& arenas,
                  std::size_t at, Ns time, run::StepRow step) {
    if (!alloc::is_possible(event)) return;
    if (!alloc::is_release(event.action) && !alloc::is_growth(event.action)) return;
    const bool maps = event.action == alloc::RecordedAction::segment_map;
    run::SegmentRecord row;
    row.step = step;
    row.stream = run::StreamRow(first_stream_ + event.stream.row());
    row.expandable = maps || event.action == alloc::RecordedAction::segment_unmap;
    row.large = row.expandable ? arenas.kind(at) == alloc::PoolKind::large
                               : event.size != alloc::kSmallBuffer;
    row.change = maps             ? run::SegmentChange::mapped
                 : row.expandable ? run::SegmentChange::unmapped
                 : event.action == alloc::RecordedAction::segment_alloc
                     ? run::SegmentChange::allocated
                     : run::SegmentChange::released;
    row.time = time;
    row.address = static_cast<std::uint64_t>(event.address);
    row.bytes = event.size;
    run_.add(row);
  }

  void add_block(const MemoryTrace& trace, const alloc::BlockLife& life, run::StepRow step,
                 Ns end) {
    if (life.is_waiting) return;  // not allocated in the window
    run::BindingRecord row;
    row.step = step;
    row.name = name_of(stack_of(snapshot_, trace.device, life), life);
    row.cause = Cause::unknown;
    row.bytes = life.requested;
    row.block_bytes = life.size;
    row.address = static_cast<std::uint64_t>(life.address);
    row.from_before = !life.born.has_value();
    row.still_bound = !life.freed.has_value();
    row.allocated = life.born ? time_of(trace.device, *life.born) : 0;
    row.freed = life.freed ? time_of(trace.device, *life.freed) : end;
    run_.add(row);
  }

  StringId name_of(traces::StackId stack, const alloc::BlockLife& life) {
    const auto [entry, is_new] = names_.try_emplace({stack, life.born.has_value()});
    if (is_new) entry->second = run_.text(holder_name(snapshot_, stack, life));
    return entry->second;
  }

  const Snapshot& snapshot_;
  std::span<const DeviceRecording> devices_;
  const MemoryReport& report_;
  run::Run run_;
  std::int64_t first_us_ = 0;
  std::size_t first_stream_ = 0;  // of the device
  // By stack, and whether it was allocated in the window.
  std::map<std::pair<traces::StackId, bool>, StringId> names_;
};

}  // namespace

run::Run snapshot_run(const Snapshot& snapshot, std::span<const DeviceRecording> devices,
                      const MemoryReport& report) {
  return SnapshotRecorder(snapshot, devices, report).record();
}

}  // namespace foregather::tasks
