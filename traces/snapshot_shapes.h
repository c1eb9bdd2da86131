// Recognises the dicts of a memory snapshot while its pickle is read.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "traces/pickle.h"
#include "traces/snapshot.h"

namespace foregather::traces {

/// Keys of a snapshot's dicts; their texts are the first rows of the string table.
enum class SnapshotKey : std::uint8_t {
  action,
  addr,
  size,
  stream,
  time_us,
  frames,
  device_free,  // events
  name,
  filename,
  line,  // frames
  address,
  requested_size,
  state,
  history,
  real_size,  // blocks
  device,
  total_size,
  segment_type,
  segment_pool_id,
  is_expandable,
  blocks,  // segments
  count,
};

/// Turns frames, stacks, events, blocks and segments into rows. What lacks a field stays a plain
/// dict, so that its place in the snapshot decides whether that is an error.
class SnapshotShapes final : public PickleShapes {
 public:
  enum Type : std::uint8_t { frame, stack, event, block, segment };

  /// Fills the heap's empty string table with the keys.
  SnapshotShapes(PickleHeap& heap, Snapshot& snapshot);

  Result<std::optional<PickleValue>> dict(std::span<const PickleValue> items) override;
  Result<std::optional<PickleValue>> sequence(std::span<const PickleValue> items) override;

  /// By row of their records.
  std::vector<SnapshotEvent> events;
  std::vector<SnapshotSegment> segments;

 private:
  using Fields = std::array<const PickleValue*, static_cast<std::size_t>(SnapshotKey::count)>;
  using Record = std::optional<PickleValue>;

  const PickleValue* at(SnapshotKey key) const { return fields_[static_cast<std::size_t>(key)]; }
  bool has(SnapshotKey key) const { return at(key) != nullptr; }
  bool integer(SnapshotKey key, std::int64_t& out) const;
  bool handle(SnapshotKey key, std::uint64_t& out) const;
  bool flag(SnapshotKey key) const;
  StackId stack_of(const PickleValue* frames) const;
  const PickleValue* item(std::span<const PickleValue> dict, SnapshotKey key) const;

  Record read_frame();
  Record read_event();
  Record read_block();
  Record read_segment();
  bool read_action(SnapshotAction& action) const;
  void read_history(SnapshotBlock& block) const;
  bool place_blocks(SnapshotSegment& segment);

  PickleHeap& heap_;
  Snapshot& snapshot_;
  Fields fields_{};
  std::vector<SnapshotBlock> blocks_;
  std::vector<bool> placed_;  ///< of these: in a segment
  std::vector<FrameId> scratch_;
};

}  // namespace foregather::traces
