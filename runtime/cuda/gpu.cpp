#include "runtime/cuda/gpu.cuh"

#include <cmath>
#include <utility>

#include "core/base/text.h"
#include "runtime/cuda/calls.cuh"

namespace foregather::runtime::cuda {
namespace {

constexpr Ns kInterval = kSecond;
/// A comparison that took longer says too little.
constexpr Ns kSharp = 40 * kMicrosecond;

}  // namespace

Result<std::unique_ptr<Gpu>> Gpu::open(int index, const Driver& driver, const Clock& clock) {
  std::unique_ptr<Gpu> gpu(new Gpu(index, driver, clock));
  if (const Status ready = gpu->prepare(); !ready) return tl::unexpected(ready.error());
  return gpu;
}

Status Gpu::prepare() {
  Calls calls;
  cudaDeviceProp properties{};
  FOREGATHER_CUDA(calls, cudaSetDevice(index_));
  FOREGATHER_CUDA(calls, cudaGetDeviceProperties(&properties, index_));
  if (!calls.is_ok()) return calls.status();
  name_ = properties.name;
  processors_ = properties.multiProcessorCount;
  compute_capability_ = properties.major * 10 + properties.minor;
  if (compute_capability_ < 80)
    return fail_work("", "GPU {} is a {} of compute capability {}.{}, expected 8.0 or later",
                     index_, name_, properties.major, properties.minor);
  int lowest = 0, highest = 0;
  FOREGATHER_CUDA(calls, cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  FOREGATHER_CUDA(calls,
                  cudaStreamCreateWithPriority(&own_stream_, cudaStreamNonBlocking, highest));
  FOREGATHER_CUDA(calls, cudaEventCreate(&anchor_.event));
  FOREGATHER_CUDA(calls, cudaEventCreate(&next_.event));
  if (!calls.is_ok()) return calls.status();
  // The best of some: the first ones wake the GPU.
  std::optional<Ns> best;
  for (int i = 0; i < 20; ++i) {
    const auto width = round_trip(next_, kSecond);
    if (!width) return fail_work("", "GPU {} does not perform the simplest work", index_);
    if (best && *width >= *best) continue;
    best = width;
    std::swap(anchor_, next_);
  }
  compared_ = clock_.now();
  products_ = Products::open(no_products_);
  return {};
}

Gpu::~Gpu() {
  (void)use();
  for (void* const memory : device_memory_) cudaFree(memory);
  for (void* const memory : host_memory_) cudaFreeHost(memory);
  if (anchor_.event != nullptr) cudaEventDestroy(anchor_.event);
  if (next_.event != nullptr) cudaEventDestroy(next_.event);
  if (own_stream_ != nullptr) cudaStreamDestroy(own_stream_);
}

Bytes Gpu::free_memory() const {
  (void)use();
  std::size_t free = 0, total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? static_cast<Bytes>(free) : 0;
}

cudaError_t Gpu::use() const { return cudaSetDevice(index_); }

Result<void*> Gpu::allocate(Bytes bytes, bool on_host) {
  Calls calls;
  void* memory = nullptr;
  FOREGATHER_CUDA(calls, use());
  if (on_host)
    FOREGATHER_CUDA(calls, cudaHostAlloc(&memory, static_cast<std::size_t>(bytes),
                                         cudaHostAllocPortable | cudaHostAllocMapped));
  else
    FOREGATHER_CUDA(calls, cudaMalloc(&memory, static_cast<std::size_t>(bytes)));
  if (!calls.is_ok())
    return fail_work("", "{} for buffers of the runtime: {}", format_bytes(bytes),
                     calls.status().error().message);
  (on_host ? host_memory_ : device_memory_).push_back(memory);
  return memory;
}

// How long it took; nothing if that was more than the patience.
std::optional<Ns> Gpu::round_trip(Anchor& anchor, Ns patience) {
  const Ns begin = clock_.now();
  if (cudaEventRecord(anchor.event, own_stream_) != cudaSuccess) return std::nullopt;
  while (cudaEventQuery(anchor.event) == cudaErrorNotReady) {
    (void)cudaGetLastError();
    if (clock_.now() - begin > patience) return std::nullopt;
  }
  const Ns end = clock_.now();
  anchor.time = begin + (end - begin) / 2;
  return end - begin;
}

Result<Ns> Gpu::time_of(cudaEvent_t event) {
  Calls calls;
  float milliseconds = 0;
  if (!FOREGATHER_CUDA(calls, cudaEventElapsedTime(&milliseconds, anchor_.event, event)))
    return tl::unexpected(calls.status().error());
  return anchor_.time + std::llround(static_cast<double>(milliseconds) * 1e6);
}

// Where the GPU is too busy to answer at once, its own clock carries on from the last anchor.
void Gpu::compare_clocks() {
  if (clock_.now() - compared_ < kInterval) return;
  compared_ = clock_.now();
  const auto width = round_trip(next_, 10 * kMillisecond);
  if (!width) return;
  if (*width > kSharp) {
    const auto time = time_of(next_.event);
    if (!time) return;
    next_.time = *time;
  }
  std::swap(anchor_, next_);
}

}  // namespace foregather::runtime::cuda
