#include "runtime/cuda/known_numbers.cuh"

#include "runtime/cuda/calls.cuh"
#include "runtime/cuda/kernels.cuh"

namespace foregather::runtime::cuda {

Result<KnownNumbers> exchange_known_numbers(const Nccl& nccl, NcclCommunicator* communicator,
                                            std::size_t member, std::size_t count, Gpu& gpu) {
  constexpr std::int64_t kShare = 4096;
  constexpr Bytes kSize = 4;
  const Bytes whole = static_cast<Bytes>(count) * kShare * kSize;
  KnownNumbers known;
  Calls calls;
  FOREGATHER_CUDA(calls, gpu.use());
  void* memory = nullptr;
  void* on_host = nullptr;
  cudaStream_t stream = nullptr;
  FOREGATHER_CUDA(calls, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  FOREGATHER_CUDA(calls, cudaMalloc(&memory, (count + 1) * static_cast<std::size_t>(whole)));
  FOREGATHER_CUDA(calls, cudaHostAlloc(&on_host, sizeof(std::int64_t) + count * sizeof(void*),
                                       cudaHostAllocMapped));
  if (calls.is_ok()) {
    auto* const wrong = static_cast<std::int64_t*>(on_host);
    *wrong = -1;
    auto** const table = reinterpret_cast<const void**>(wrong + 1);
    for (std::size_t m = 0; m < count; ++m) {
      table[m] = static_cast<std::byte*>(memory) + static_cast<Bytes>(m) * whole;
      FOREGATHER_CUDA(calls,
                      cuda::fill(stream, const_cast<void*>(table[m]), whole, DType::f32, m + 1));
    }
    std::byte* const out = static_cast<std::byte*>(memory) + static_cast<Bytes>(count) * whole;
    for (const OpKind kind : {OpKind::all_gather, OpKind::reduce_scatter, OpKind::all_reduce}) {
      const std::int64_t elements = kind == OpKind::all_reduce ? whole / kSize : kShare;
      FOREGATHER_CUDA(calls, cudaMemsetAsync(out, 0xff, static_cast<std::size_t>(whole), stream));
      if (calls.is_ok())
        calls.note(nccl.enqueue(kind, table[member], out, elements, DType::f32, communicator,
                                static_cast<int>(member), static_cast<int>(count), stream));
      Pull pull;
      pull.kind = kind;
      pull.type = DType::f32;
      pull.in = table;
      pull.out = out;
      pull.members = static_cast<int>(count);
      pull.me = static_cast<int>(member);
      for (std::size_t m = 0; m < count; ++m) pull.position[m] = static_cast<std::uint16_t>(m);
      pull.elements = elements;
      pull.processors = 24;
      FOREGATHER_CUDA(calls, cuda::check(stream, pull, wrong));
      FOREGATHER_CUDA(calls, cudaStreamSynchronize(stream));
      if (calls.is_ok() && *wrong >= 0)
        calls.note(fail_work("", "NCCL's {} gives wrong numbers: element {}",
                             foregather::name(kind), *wrong));
      ++known.collectives;
      known.bytes += kind == OpKind::reduce_scatter ? kShare * kSize : whole;
    }
  }
  if (memory != nullptr) cudaFree(memory);
  if (on_host != nullptr) cudaFreeHost(on_host);
  if (stream != nullptr) cudaStreamDestroy(stream);
  if (!calls.is_ok()) return tl::unexpected(calls.status().error());
  return known;
}

}  // namespace foregather::runtime::cuda
