// What the allocator asks about GPU time: whether another stream is done with a block.
#pragma once

#include <cstdint>

#include "core/alloc/ids.h"

namespace foregather::alloc {

/// An event recorded on a stream. Opaque; the clock gives it its meaning (a GPU time, a row of a
/// recorded trace, a slot of a cudaEvent_t).
struct EventToken {
  std::uint64_t value = 0;
  friend bool operator==(EventToken, EventToken) = default;
};

/// Used only for blocks that saw record_stream. One thread; calls may advance the host's clock.
class EventClock {
 public:
  virtual ~EventClock() = default;

  /// Marks the end of all work enqueued on `stream` until now.
  virtual EventToken record(StreamId stream) = 0;
  /// Has that work ended at the host's present time? Once true it stays true, and the token is not
  /// used again. Events of one stream become true in the order of their recording.
  virtual bool query(EventToken event) = 0;
  /// Blocks the host until that work has ended. The token is not used again.
  virtual void synchronize(EventToken event) = 0;
};

/// All work ends at once: record_stream has no effect on memory.
class InstantClock final : public EventClock {
 public:
  EventToken record(StreamId) override { return {}; }
  bool query(EventToken) override { return true; }
  void synchronize(EventToken) override {}
};

}  // namespace foregather::alloc
