// What happens below malloc and free, for recording and for comparing a replay with a recording.
#pragma once

#include <cstdint>

#include "core/alloc/ids.h"

namespace foregather::alloc {

enum class SegmentAction : std::uint8_t { alloc, free, map, unmap };

/// A change of reserved memory; the names in a memory snapshot are segment_alloc, segment_free,
/// segment_map and segment_unmap.
struct SegmentEvent {
  SegmentAction action = SegmentAction::alloc;
  PoolKind kind = PoolKind::large;
  StreamId stream;
  Address address = 0;
  Bytes size = 0;
  friend bool operator==(const SegmentEvent&, const SegmentEvent&) = default;
};

/// Called inside an operation, in the order in which things happen; must not call the allocator.
class AllocatorSink {
 public:
  virtual ~AllocatorSink() = default;

  virtual void segment(const SegmentEvent& event) = 0;
  /// The events of a block freed earlier have happened; its number is now free. A free without
  /// events completes inside free() and is not reported here.
  virtual void free_completed(BlockId) {}
  /// No memory was found. `available` is what the driver reports as free.
  virtual void out_of_memory(Bytes /*requested*/, StreamId, Bytes /*available*/) {}
};

}  // namespace foregather::alloc
