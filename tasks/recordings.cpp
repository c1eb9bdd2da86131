#include "tasks/recordings.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace foregather::tasks {
namespace {

using traces::Snapshot;
using traces::SnapshotAction;
using traces::SnapshotSegment;
using traces::SnapshotState;

constexpr std::int64_t kMostDivisions = 1 << 20;

alloc::RecordedAction converted(SnapshotAction action) {
  switch (action) {
    case SnapshotAction::alloc: return alloc::RecordedAction::alloc;
    case SnapshotAction::free_requested: return alloc::RecordedAction::free_requested;
    case SnapshotAction::free_completed: return alloc::RecordedAction::free_completed;
    case SnapshotAction::segment_alloc: return alloc::RecordedAction::segment_alloc;
    case SnapshotAction::segment_free: return alloc::RecordedAction::segment_free;
    case SnapshotAction::segment_map: return alloc::RecordedAction::segment_map;
    case SnapshotAction::segment_unmap: return alloc::RecordedAction::segment_unmap;
    case SnapshotAction::oom: return alloc::RecordedAction::oom;
    case SnapshotAction::other: break;
  }
  return alloc::RecordedAction::other;
}

alloc::BlockState converted(SnapshotState state) {
  switch (state) {
    case SnapshotState::allocated: return alloc::BlockState::allocated;
    case SnapshotState::pending_free: return alloc::BlockState::waiting;
    case SnapshotState::inactive: break;
  }
  return alloc::BlockState::free;
}

/// Numbers stream handles in order of appearance.
class Streams {
 public:
  alloc::StreamId id(std::uint64_t handle) {
    if (handle == last_handle_ && last_) return last_;
    const auto [entry, is_new] = rows_.try_emplace(handle, handles_.size());
    if (is_new) handles_.push_back(handle);
    last_handle_ = handle;
    return last_ = alloc::StreamId(entry->second);
  }
  std::vector<std::uint64_t> take() { return std::move(handles_); }

 private:
  std::unordered_map<std::uint64_t, std::size_t> rows_;
  std::vector<std::uint64_t> handles_;
  std::uint64_t last_handle_ = 0;
  alloc::StreamId last_;
};

/// Which stacks have a frame of torch.cuda.empty_cache.
std::vector<bool> stacks_in_empty_cache(const Snapshot& snapshot) {
  std::vector<bool> out(snapshot.stacks.size());
  for (std::size_t row = 0; row < out.size(); ++row)
    for (const traces::FrameId frame : snapshot.stacks.frames(traces::StackId(row)))
      if (snapshot.strings.text(snapshot.stacks.frame(frame).name) == "empty_cache")
        out[row] = true;
  return out;
}

alloc::SegmentLayout converted(const SnapshotSegment& segment, Streams& streams) {
  alloc::SegmentLayout out;
  out.address = segment.address;
  out.size = segment.total;
  out.stream = streams.id(segment.stream);
  out.kind = segment.is_large ? alloc::PoolKind::large : alloc::PoolKind::small;
  out.expandable = segment.is_expandable;
  for (const traces::SnapshotBlock& block : segment.blocks)
    out.blocks.push_back(
        {converted(block.state), block.address, block.size, block.requested, {}, {}});
  return out;
}

std::size_t device_count(const Snapshot& snapshot) {
  std::size_t count = snapshot.traces.size();
  for (const SnapshotSegment& segment : snapshot.segments)
    count = std::max(count, static_cast<std::size_t>(segment.device) + 1);
  return count;
}

}  // namespace

alloc::AllocConfig recorded_config(const Snapshot& snapshot, std::vector<std::string>& warnings) {
  alloc::AllocConfig config;
  if (!snapshot.settings) return config;
  const traces::SnapshotSettings& settings = *snapshot.settings;
  if (auto parsed = alloc::parse_alloc_conf(settings.conf))
    config = *parsed;
  else
    warnings.push_back(fmt::format("the recorded configuration '{}' is not understood: {}",
                                   settings.conf, parsed.error().message));
  if (!config.native_backend) {
    warnings.push_back("recorded under the cudaMallocAsync backend, replayed under the native one");
    config.native_backend = true;
  }
  if (settings.expandable_segments) config.expandable_segments = *settings.expandable_segments;
  if (settings.max_split_size) {
    config.max_split_size.reset();
    // PyTorch takes it in MiB.
    if (*settings.max_split_size >= config.large_segment_size &&
        *settings.max_split_size % MiB == 0)
      config.max_split_size = *settings.max_split_size;
  }
  const auto threshold = settings.garbage_collection_threshold;
  if (threshold && *threshold >= 0 && *threshold < 1)
    config.garbage_collection_threshold = *threshold;
  if (settings.roundup_power2_divisions) {
    const auto& divisions = *settings.roundup_power2_divisions;
    for (std::size_t slot = 0; slot < divisions.size(); ++slot)
      if (divisions[slot] >= 0 && divisions[slot] <= kMostDivisions &&
          (divisions[slot] & (divisions[slot] - 1)) == 0)
        config.roundup_power2_divisions[slot] = static_cast<std::uint32_t>(divisions[slot]);
  }
  return config;
}

std::vector<DeviceRecording> recordings(const Snapshot& snapshot, const alloc::AllocConfig& config,
                                        std::vector<std::string>& warnings) {
  const std::vector<bool> in_empty_cache = stacks_in_empty_cache(snapshot);
  std::vector<DeviceRecording> out;
  std::size_t private_segments = 0;
  for (std::size_t device = 0; device < device_count(snapshot); ++device) {
    Streams streams;
    DeviceRecording row;
    row.device = device;
    row.recording.config = config;
    for (const SnapshotSegment& segment : snapshot.segments) {
      if (segment.device != static_cast<std::int64_t>(device)) continue;
      private_segments += segment.in_private_pool ? 1 : 0;
      row.recording.at_end.push_back(converted(segment, streams));
    }
    if (device < snapshot.traces.size()) {
      row.recording.events.reserve(snapshot.traces[device].size());
      for (const traces::SnapshotEvent& event : snapshot.traces[device])
        row.recording.events.push_back({event.address, event.size, streams.id(event.stream),
                                        converted(event.action),
                                        event.stack && in_empty_cache[event.stack.row()]});
    }
    row.recording.streams = streams.take();
    if (!row.recording.events.empty() || !row.recording.at_end.empty())
      out.push_back(std::move(row));
  }
  if (private_segments > 0)
    warnings.push_back(fmt::format(
        "{} segment{} of private pools {} replayed as if of the default pool", private_segments,
        private_segments == 1 ? "" : "s", private_segments == 1 ? "is" : "are"));
  return out;
}

}  // namespace foregather::tasks
