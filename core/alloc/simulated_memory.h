// A device that exists only as a number of bytes.
#pragma once

#include <optional>
#include <vector>

#include "core/alloc/device_memory.h"

namespace foregather::alloc {

/// Hands out ranges of addresses on 2 MiB boundaries, the lowest free one that fits, and counts
/// bytes against a capacity. Deterministic; copyable, so that a simulation can go on from a
/// snapshot. Cost: linear in the number of holes between segments.
class SimulatedMemory final : public DeviceMemory {
 public:
  struct Options {
    /// Lowest address of segments.
    Address base = Address{1} << 40;
    /// Use addresses of released segments again, as drivers do; else they only ascend. Those of
    /// reservations, which are few, are always used again.
    bool reuse = true;
    /// Reservations start at arena_base + k × arena_stride, k = 1, 2, …; where addresses end,
    /// further ones lie between those.
    Address arena_base = Address{1} << 50;
    Bytes arena_stride = Bytes{1} << 44;
  };
  /// A capacity greater than that of any device.
  static constexpr Bytes kUnlimited = 1023 * GiB;

  /// `capacity`: bytes this process may take, at most kUnlimited. `total`: size of the device as
  /// the driver reports it; the rest belongs to others.
  explicit SimulatedMemory(Bytes capacity) : SimulatedMemory(capacity, capacity, Options{}) {}
  SimulatedMemory(Bytes capacity, Bytes total, const Options& options);

  Bytes total() const override { return total_; }
  Bytes available() const override { return capacity_ - used_; }
  Bytes used() const { return used_; }

  /// Takes memory away from (+) or returns it to (−) what this process may take: another user of
  /// the device came or went. The capacity may fall below what is used.
  void change_capacity(Bytes change) { capacity_ += change; }

  std::optional<Address> allocate(Bytes size, StreamId stream) override;
  void release(Address address, Bytes size) override;
  std::optional<Address> reserve(Bytes size, StreamId stream) override;
  void unreserve(Address address, Bytes size) override;
  bool map(Address address, Bytes size, Bytes granule) override;
  void unmap(Address address, Bytes size) override;

  /// Marks a range as allocated, for a state that was taken from elsewhere. It must be free, on a
  /// 2 MiB boundary and not below the base.
  void adopt_segment(Address address, Bytes size);
  /// Marks bytes as mapped in a reservation that was made elsewhere.
  void adopt_mapped(Bytes size) { used_ += size; }

 private:
  struct Hole {
    Address address;
    Bytes size;
  };

  Bytes arena_room() const;
  Bytes arenas_in_row() const;

  Bytes capacity_;
  Bytes total_;
  Options options_;
  Bytes used_ = 0;
  std::vector<Hole> holes_;   ///< free ranges in order, the last without end
  std::vector<bool> arenas_;  ///< by number: reserved
};

}  // namespace foregather::alloc
