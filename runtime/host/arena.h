// Memory of the host that plays a device: real pages behind the addresses of the simulated one.
#pragma once

#include <functional>
#include <memory>

#include "core/alloc/simulated_memory.h"
#include "core/base/result.h"

namespace foregather::runtime {

/// Segments lie where SimulatedMemory puts them, in one reserved range of addresses, so that the
/// allocator meets the same order of addresses as in a simulation. Pages come with the segment and
/// go with it. One thread.
class Arena final : public alloc::DeviceMemory {
 public:
  /// Reserves addresses, no memory. `finish_work` is called before memory goes back: whatever uses
  /// it must have ended. Error: there is no room for the addresses.
  static Result<std::unique_ptr<Arena>> create(Bytes capacity, std::function<void()> finish_work);
  ~Arena() override;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  Bytes total() const override { return addresses_.total(); }
  Bytes available() const override { return addresses_.available(); }
  std::optional<alloc::Address> allocate(Bytes size, alloc::StreamId stream) override;
  void release(alloc::Address address, Bytes size) override;
  std::optional<alloc::Address> reserve(Bytes size, alloc::StreamId stream) override;
  void unreserve(alloc::Address address, Bytes size) override;
  bool map(alloc::Address address, Bytes size, Bytes granule) override;
  void unmap(alloc::Address address, Bytes size) override;

 private:
  Arena(std::byte* begin, Bytes reserved, Bytes capacity,
        const alloc::SimulatedMemory::Options& options, std::function<void()> finish_work);
  bool back(alloc::Address address, Bytes size);
  void drop(alloc::Address address, Bytes size);

  std::byte* begin_;
  Bytes reserved_;
  alloc::SimulatedMemory addresses_;
  std::function<void()> finish_work_;
};

}  // namespace foregather::runtime
