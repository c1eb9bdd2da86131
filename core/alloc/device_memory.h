// The driver as the allocator sees it: segments, and address ranges with memory mapped into them.
#pragma once

#include <optional>

#include "core/alloc/ids.h"

namespace foregather::alloc {

/// Device memory of one device for one allocator. One thread. Implementations: simulated
/// (simulated_memory.h), recorded, real. All sizes are multiples of 2 MiB.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  /// Size of the device. Constant: it fixes the memory fraction and the size of reservations.
  virtual Bytes total() const = 0;
  /// What the driver would report as free now.
  virtual Bytes available() const = 0;

  /// cudaMalloc. Nothing when the device is full.
  virtual std::optional<Address> allocate(Bytes size, StreamId stream) = 0;
  /// cudaFree of a whole earlier allocation.
  virtual void release(Address address, Bytes size) = 0;

  /// Reserves a range of addresses without memory. Nothing when addresses have run out.
  virtual std::optional<Address> reserve(Bytes size, StreamId stream) = 0;
  /// Gives a reservation back; nothing is mapped in it.
  virtual void unreserve(Address address, Bytes size) = 0;
  /// Backs a part of a reservation with memory in granules (`size` is a multiple of `granule`).
  /// All or nothing; false when the device is full.
  virtual bool map(Address address, Bytes size, Bytes granule) = 0;
  /// Takes the memory of a mapped part away. Waits for the work that uses it.
  virtual void unmap(Address address, Bytes size) = 0;
};

}  // namespace foregather::alloc
