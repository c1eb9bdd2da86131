// The device memory of one program: the caching allocator driven by its actions, and the ledger of
// who holds the bytes.
#pragma once

#include <array>
#include <cassert>
#include <optional>
#include <utility>
#include <vector>

#include "core/alloc/caching_allocator.h"
#include "core/ir/graph.h"

namespace foregather::ledger {

/// The life of one storage binding, in host order.
struct Binding {
  StorageId storage;
  Bytes block_bytes = 0;  ///< rounded and with slack
  std::uint64_t address = 0;
  Ns allocated = 0;             ///< host time
  Ns freed = 0;                 ///< host time of the free call; the step's end if still bound
  std::uint32_t before_op = 0;  ///< row of the first op launched after the alloc
  bool from_before = false;     ///< bound when the step began
  bool still_bound = false;     ///< at the step's end
};

/// The memory curve at the points where it changed.
struct MemoryPoint {
  Ns time = 0;  ///< host time
  Bytes requested = 0, allocated = 0, active = 0, reserved = 0;
};

struct MemoryPeaks {
  Bytes requested = 0, allocated = 0, active = 0, reserved = 0;
  /// Where `allocated` is largest: bytes by cause (sum = the allocated peak) and the op that was
  /// launched next.
  std::array<Bytes, kScheduleCauses> by_cause{};
  std::optional<OpId> at;
  std::uint64_t retries = 0;
};

/// Memory came from the driver or went back, at a host time; or was held when the step began.
struct SegmentChange {
  enum class Kind : std::uint8_t { held, allocated, released, mapped, unmapped };
  Kind kind = Kind::held;
  bool large = true;        ///< of the large pool
  bool expandable = false;  ///< a mapped range of an expandable segment
  StreamId stream;
  Ns time = 0;
  std::uint64_t address = 0;
  Bytes bytes = 0;
};

/// What one step did to the memory of a class.
struct MemoryStep {
  MemoryPeaks peaks;
  std::vector<Binding> bindings;
  std::vector<SegmentChange> segments;
  std::vector<MemoryPoint> points;
};

/// Performs alloc, free, release, record_stream and empty_cache. Times of bindings and points are
/// the host times that the caller passes. Cost: the allocator's, plus a few nanoseconds.
class ProgramMemory : private alloc::AllocatorSink {
 public:
  /// `memory` and `clock` are borrowed. `record` decides whether bindings and points are kept.
  ProgramMemory(const Graph& graph, const Program& program, const alloc::AllocConfig& config,
                alloc::DeviceMemory& memory, alloc::EventClock& clock, bool record);

  /// False when the device is out of memory; the storage stays unbound.
  bool alloc(std::uint32_t storage, StreamId stream, Ns now);
  void free(std::uint32_t storage, Ns now);
  /// Drops one tensor of its storage; the last one frees it.
  void release(std::uint32_t tensor, Ns now);
  void record_stream(std::uint32_t storage, StreamId stream);
  void empty_cache(Ns now);

  /// Driver calls of the last alloc, free or empty_cache.
  const alloc::DriverCalls* driver_calls() const { return calls_; }
  bool has_pending() const { return allocator_.has_pending(); }
  /// Whether the results so far depend only on the order of the actions: nothing was deferred to an
  /// event and nothing was retried.
  bool timeless() const { return timeless_; }
  Bytes reserved() const { return allocator_.usage().reserved; }
  /// What a storage's block covers.
  struct Place {
    alloc::Address address = 0;
    Bytes bytes = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  /// Of all storages that have a block, by row.
  std::vector<std::pair<std::uint32_t, Place>> places() const;
  /// Where the storage lies now; 0 and 0 where it has no block.
  Place place(std::uint32_t storage) const;
  /// The idle block that the last alloc took all or the front of; 0 and 0: it needed none.
  const Place& cut() const { return cut_; }

  void begin_step(Ns now);
  /// Called at a launch: names the op that follows the latest peak and allocations.
  void launched(std::uint32_t op_row) {
    if (has_unnamed_) name_op(op_row);
  }
  MemoryStep end_step(Ns now);

  ProgramMemory(const ProgramMemory&) = delete;
  ProgramMemory& operator=(const ProgramMemory&) = delete;

 private:
  struct Slot {
    Bytes bytes = 0;
    alloc::BlockId block;
    std::uint32_t binding = 0;   ///< row of step_.bindings, if it was bound in this step
    std::uint32_t tensors = 0;   ///< that it has
    std::uint32_t released = 0;  ///< of these, since it was bound
    bool bound = false;
    bool on_host = false;
    Cause cause = Cause::temporary;
  };

  void segment(const alloc::SegmentEvent& event) override;
  void bind_on_host(Slot& slot);
  void note_calls();
  void note_alloc(std::uint32_t storage, Slot& slot, Ns now);
  void note_free(const Slot& slot, Ns now);
  void add_held_segments(Ns now);
  void name_op(std::uint32_t op_row);
  void keep_peak();
  void note(Ns now);

  static constexpr std::uint32_t kNoBinding = 0xffffffffU;  ///< of a storage in host memory
  const Graph& graph_;
  Range storages_;
  alloc::CachingAllocator allocator_;
  bool record_;
  bool timeless_ = true;
  bool has_unnamed_ = false;
  bool peak_unnamed_ = false;
  bool at_peak_ = false;  ///< no free since the peak: its causes are the present ones
  const alloc::DriverCalls* calls_ = nullptr;
  Place cut_;
  std::vector<Slot> slots_;
  std::array<Bytes, kScheduleCauses> by_cause_{};
  Bytes allocated_ = 0;  ///< their sum
  std::uint32_t first_unnamed_ = 0;
  MemoryStep step_;
  Ns now_ = 0;  ///< of the call under way, for segment()
};

inline bool ProgramMemory::alloc(std::uint32_t storage, StreamId stream, Ns now) {
  now_ = now;
  Slot& slot = slots_[storage - storages_.first];
  assert(!slot.bound);
  slot.released = 0;
  calls_ = nullptr;
  if (slot.on_host) [[unlikely]] {
    bind_on_host(slot);
    return true;
  }
  const alloc::Allocation got = allocator_.malloc(slot.bytes, alloc::StreamId(stream.row()));
  cut_ = {got.address, got.cut_from};
  if (got.called_driver) [[unlikely]]
    note_calls();
  if (got.ok()) [[likely]] {
    const Bytes block_bytes = allocator_.block_size(got.block);
    by_cause_[static_cast<std::size_t>(slot.cause)] += block_bytes;
    allocated_ += block_bytes;
    if (allocated_ > step_.peaks.allocated) {
      step_.peaks.allocated = allocated_;
      at_peak_ = peak_unnamed_ = has_unnamed_ = true;
    }
  } else if (got.status != alloc::AllocStatus::empty) {
    return false;
  }
  slot.bound = true;
  slot.block = got.block;
  if (record_) note_alloc(storage, slot, now);
  return true;
}

inline void ProgramMemory::free(std::uint32_t storage, Ns now) {
  Slot& slot = slots_[storage - storages_.first];
  assert(slot.bound);
  slot.bound = false;
  calls_ = nullptr;
  if (slot.block) [[likely]] {
    if (at_peak_) keep_peak();
    const Bytes block_bytes = allocator_.block_size(slot.block);
    by_cause_[static_cast<std::size_t>(slot.cause)] -= block_bytes;
    allocated_ -= block_bytes;
    allocator_.free(slot.block);
    if (allocator_.last_calls().event_records != 0) [[unlikely]] {
      calls_ = &allocator_.last_calls();
      timeless_ = false;
    }
    slot.block = {};
  }
  if (record_) note_free(slot, now);
}

}  // namespace foregather::ledger
