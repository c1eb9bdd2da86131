#include "runtime/cuda/memory.cuh"

#include <algorithm>

namespace foregather::runtime::cuda {

// Nothing works on it any more.
GpuMemory::~GpuMemory() {
  (void)gpu_.use();
  for (const auto& [address, bytes] : allocated_) cudaFree(reinterpret_cast<void*>(address));
  while (!mapped_.empty()) drop(mapped_.begin()->first, mapped_.begin()->second.bytes);
  for (const auto& [address, bytes] : reserved_)
    gpu_.driver().unreserve(static_cast<CUdeviceptr>(address), static_cast<std::size_t>(bytes));
}

std::optional<alloc::Address> GpuMemory::allocate(Bytes size, alloc::StreamId stream) {
  if (used_ + size > capacity_) return std::nullopt;
  if (is_shared_) {
    const auto address = reserve(size, stream);
    if (!address || map(*address, size, size)) return address;
    unreserve(*address, size);
    return std::nullopt;
  }
  (void)gpu_.use();
  void* memory = nullptr;
  if (cudaMalloc(&memory, static_cast<std::size_t>(size)) != cudaSuccess) {
    (void)cudaGetLastError();
    return std::nullopt;
  }
  used_ += size;
  const auto address = reinterpret_cast<alloc::Address>(memory);
  allocated_[address] = size;
  return address;
}

void GpuMemory::release(alloc::Address address, Bytes size) {
  if (is_shared_) {
    unmap(address, size);
    unreserve(address, size);
    return;
  }
  finish_work_();
  (void)gpu_.use();
  cudaFree(reinterpret_cast<void*>(address));
  allocated_.erase(address);
  used_ -= size;
}

std::optional<alloc::Address> GpuMemory::reserve(Bytes size, alloc::StreamId) {
  (void)gpu_.use();
  CUdeviceptr address = 0;
  if (gpu_.driver().reserve(&address, static_cast<std::size_t>(size), 0, 0, 0) != CUDA_SUCCESS)
    return std::nullopt;
  reserved_[static_cast<alloc::Address>(address)] = size;
  return static_cast<alloc::Address>(address);
}

void GpuMemory::unreserve(alloc::Address address, Bytes size) {
  (void)gpu_.use();
  gpu_.driver().unreserve(static_cast<CUdeviceptr>(address), static_cast<std::size_t>(size));
  reserved_.erase(address);
}

bool GpuMemory::map(alloc::Address address, Bytes size, Bytes granule) {
  if (used_ + size > capacity_) return false;
  (void)gpu_.use();
  Bytes done = 0;
  while (done < size && map_one(address + done, std::min(granule, size - done)))
    done += std::min(granule, size - done);
  if (done == size) return true;
  for (Bytes at = 0; at < done; at += granule) drop(address + at, std::min(granule, size - at));
  return false;
}

bool GpuMemory::map_one(alloc::Address address, Bytes bytes) {
  const Driver& driver = gpu_.driver();
  CUmemAllocationProp what{};
  what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  what.location.id = gpu_.index();
  CUmemAccessDesc access{};
  access.location = what.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const auto at = static_cast<CUdeviceptr>(address);
  const auto size = static_cast<std::size_t>(bytes);
  CUmemGenericAllocationHandle handle = 0;
  if (driver.create(&handle, size, &what, 0) != CUDA_SUCCESS) return false;
  if (driver.map(at, size, 0, handle, 0) != CUDA_SUCCESS) {
    driver.release(handle);
    return false;
  }
  if (driver.set_access(at, size, &access, 1) != CUDA_SUCCESS) {
    driver.unmap(at, size);
    driver.release(handle);
    return false;
  }
  mapped_[address] = {bytes, handle};
  used_ += bytes;
  return true;
}

void GpuMemory::drop(alloc::Address address, Bytes bytes) {
  gpu_.driver().unmap(static_cast<CUdeviceptr>(address), static_cast<std::size_t>(bytes));
  gpu_.driver().release(mapped_[address].handle);
  mapped_.erase(address);
  used_ -= bytes;
}

// As many granules as were mapped there.
void GpuMemory::unmap(alloc::Address address, Bytes size) {
  finish_work_();
  (void)gpu_.use();
  for (auto at = mapped_.lower_bound(address); at != mapped_.end() && at->first < address + size;
       at = mapped_.lower_bound(address))
    drop(at->first, at->second.bytes);
}

}  // namespace foregather::runtime::cuda
