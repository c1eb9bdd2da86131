// The memory of a GPU as the allocator asks for it.
#pragma once

#include <cuda.h>

#include <functional>
#include <map>

#include "core/alloc/device_memory.h"
#include "runtime/cuda/gpu.cuh"

namespace foregather::runtime::cuda {

/// Segments by cudaMalloc where the rank has the GPU for itself, as PyTorch does it; expandable
/// ones by addresses that memory is mapped into. Ranks that share a GPU get all their memory that
/// way: cudaFree waits for the work of all of them, which may wait for the one that called it.
class GpuMemory final : public alloc::DeviceMemory {
 public:
  /// `gpu` is borrowed. `finish_work` waits for the rank's own work.
  GpuMemory(Gpu& gpu, Bytes capacity, bool is_shared, std::function<void()> finish_work)
      : gpu_(gpu),
        capacity_(capacity),
        is_shared_(is_shared),
        finish_work_(std::move(finish_work)) {}
  ~GpuMemory() override;

  Bytes total() const override { return capacity_; }
  Bytes available() const override { return capacity_ - used_; }
  std::optional<alloc::Address> allocate(Bytes size, alloc::StreamId stream) override;
  void release(alloc::Address address, Bytes size) override;
  std::optional<alloc::Address> reserve(Bytes size, alloc::StreamId stream) override;
  void unreserve(alloc::Address address, Bytes size) override;
  bool map(alloc::Address address, Bytes size, Bytes granule) override;
  void unmap(alloc::Address address, Bytes size) override;

  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

 private:
  struct Mapped {
    Bytes bytes = 0;
    CUmemGenericAllocationHandle handle = 0;
  };
  bool map_one(alloc::Address address, Bytes bytes);
  void drop(alloc::Address address, Bytes bytes);

  Gpu& gpu_;
  Bytes capacity_;
  bool is_shared_;
  std::function<void()> finish_work_;
  Bytes used_ = 0;
  std::map<alloc::Address, Bytes> allocated_;  ///< by cudaMalloc
  std::map<alloc::Address, Bytes> reserved_;
  std::map<alloc::Address, Mapped> mapped_;
};

}  // namespace foregather::runtime::cuda
