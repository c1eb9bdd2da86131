// Whether NCCL gives the right numbers.
#pragma once

#include "runtime/cuda/gpu.cuh"
#include "runtime/cuda/nccl.cuh"

namespace foregather::runtime::cuda {

struct KnownNumbers {
  std::int64_t collectives = 0;
  Bytes bytes = 0;
};

/// Known numbers from all ranks, which each can make for itself, through an all-gather, a
/// reduce-scatter and an all-reduce. To be called for all ranks of the communicator at once; of
/// those of one process on a thread each. Errors: a wrong number, what NCCL or CUDA say.
Result<KnownNumbers> exchange_known_numbers(const Nccl& nccl, NcclCommunicator* communicator,
                                            std::size_t member, std::size_t count, Gpu& gpu);

}  // namespace foregather::runtime::cuda
