// The driver as a recording saw it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/alloc/device_memory.h"
#include "core/alloc/event_clock.h"
#include "core/alloc/recorded_arenas.h"
#include "core/alloc/recording.h"
#include "core/alloc/sink.h"

namespace foregather::alloc {

/// Answers the allocator's driver calls with what happened in the recording, and compares its
/// segment events with the recorded ones.
///
/// The caller announces which recorded segment events an operation has. A request for memory is
/// granted, at the recorded address, if the next of them is a growth, and refused if it is a
/// release or if the operation ran out of memory: then the allocator has to release first, as it
/// did. Once the two differ, whatever is asked for is granted at addresses that nothing else has.
class RecordedDevice final : public DeviceMemory, public AllocatorSink {
 public:
  /// Borrows the recording.
  explicit RecordedDevice(const Recording& recording);
  /// A segment of the start state.
  void hold(const SegmentLayout& segment);

  /// The segment events [first, last) belong to a malloc of that kind of pool, which may end
  /// without memory.
  void begin_malloc(std::size_t first, std::size_t last, PoolKind kind, bool is_oom);
  /// They belong to a release of all cached blocks.
  void begin_release(std::size_t first, std::size_t last);
  /// What differed in this operation; empty: nothing.
  std::string end_operation();

  std::size_t replayed() const { return replayed_; }
  /// Segment events that were the recorded ones, in order.
  std::size_t exact() const { return exact_; }

  Bytes total() const override { return kTotal; }
  Bytes available() const override { return 0; }
  std::optional<Address> allocate(Bytes size, StreamId stream) override;
  void release(Address address, Bytes size) override;
  std::optional<Address> reserve(Bytes size, StreamId stream) override;
  void unreserve(Address address, Bytes size) override;
  bool map(Address address, Bytes size, Bytes granule) override;
  void unmap(Address, Bytes) override {}
  void segment(const SegmentEvent& event) override;

 private:
  /// More than any device, so that a reservation never ends too early.
  static constexpr Bytes kTotal = 512 * GiB;

  bool is_refused();
  bool is_free(Address address, Bytes size) const;
  bool is_usable(Address address, Bytes size) const;
  Address invented(Bytes size);

  const Recording& recording_;
  const RecordedArenas arenas_;
  std::map<Address, Bytes> held_;  ///< segments, and bases of arenas with size 0
  std::size_t next_ = 0;           ///< recorded events of the operation
  std::size_t last_ = 0;
  PoolKind kind_ = PoolKind::large;
  bool is_oom_ = false;
  int refusals_ = 0;
  std::string difference_;
  std::size_t replayed_ = 0;
  std::size_t exact_ = 0;
  Address next_invented_ = Address{1} << 50;
};

/// Says that a block is no longer in use when the recording says so. Each waiting block has a
/// stream of its own.
class RecordedClock final : public EventClock {
 public:
  /// Streams from `first_stream` on are the clock's.
  explicit RecordedClock(std::size_t first_stream) : first_(first_stream) {}

  /// A stream that no block waits for.
  StreamId acquire();
  /// The work of that stream has ended; nothing waits for it once events have been processed.
  void complete(StreamId stream) { done_[stream.row() - first_] = true; }
  void release(StreamId stream) { spare_.push_back(stream); }

  EventToken record(StreamId stream) override { return {stream.row()}; }
  bool query(EventToken event) override { return done_[event.value - first_]; }
  void synchronize(EventToken event) override { done_[event.value - first_] = true; }

 private:
  std::size_t first_;
  std::vector<bool> done_;
  std::vector<StreamId> spare_;
};

}  // namespace foregather::alloc
