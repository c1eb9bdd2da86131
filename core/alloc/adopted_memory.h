// Simulated memory in which some segments exist already.
#pragma once

#include <set>

#include "core/alloc/layout.h"
#include "core/alloc/simulated_memory.h"

namespace foregather::alloc {

/// Segments of a recorded state count against the capacity at their recorded addresses; new ones
/// lie where SimulatedMemory puts them, above all of those.
class AdoptedMemory final : public DeviceMemory {
 public:
  /// `base` is the lowest address of new segments.
  AdoptedMemory(const Layout& existing, Bytes capacity, Address base);

  Bytes total() const override { return memory_.total(); }
  Bytes available() const override { return memory_.available(); }
  std::optional<Address> allocate(Bytes size, StreamId stream) override {
    return memory_.allocate(size, stream);
  }
  void release(Address address, Bytes size) override;
  std::optional<Address> reserve(Bytes size, StreamId stream) override {
    return memory_.reserve(size, stream);
  }
  void unreserve(Address address, Bytes size) override;
  bool map(Address address, Bytes size, Bytes granule) override {
    return memory_.map(address, size, granule);
  }
  void unmap(Address address, Bytes size) override { memory_.unmap(address, size); }

 private:
  SimulatedMemory memory_;
  std::set<Address> existing_;
};

}  // namespace foregather::alloc
