// The kernels of the CUDA backend, as functions that enqueue them on a stream. They return what
// cudaLaunchKernel does. All pointers are device memory unless said.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

#include "core/base/units.h"
#include "core/ir/kinds.h"

namespace foregather::runtime::cuda {

/// Random numbers of the type, ± [1/2, 1), or integers below 64: the same for the same seed.
cudaError_t fill(cudaStream_t stream, void* to, Bytes bytes, DType type, std::uint64_t seed);

/// Keeps the stream busy for so long.
cudaError_t spin(cudaStream_t stream, Ns time);

/// Consecutive memory. Kernels touch the whole 16-byte words in it.
struct Segment {
  void* data = nullptr;
  Bytes bytes = 0;
};

/// Which arithmetic units do the FLOPs of a kernel.
enum class Unit : std::uint8_t {
  vector,       ///< single precision
  vector_f64,   ///< double precision
  matrix_bf16,  ///< tensor cores
  matrix_f16,
};

/// What one kernel reads, computes and writes; at most kSegments of each.
inline constexpr int kSegments = 64;
struct Traffic {
  std::array<Segment, kSegments> read, write;
  std::array<DType, kSegments> type{};  ///< of what is written
  int reads = 0, writes = 0;
  std::int64_t flops = 0;
  Unit unit = Unit::vector;
  std::uint64_t seed = 0;         ///< of what is written
  std::uint64_t* sink = nullptr;  ///< so that no read is left out; never written in practice
};
cudaError_t perform(cudaStream_t stream, const Traffic& traffic, int processors);

/// Elements from one place to another, converted where the types differ: rounded to nearest even.
/// Integers are copied as far as their size goes where both are integers, and become numbers
/// otherwise. At most kPieces.
inline constexpr int kPieces = 120;
struct Piece {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t elements = 0;
};
struct Pieces {
  std::array<Piece, kPieces> piece;
  int count = 0;
  DType from = DType::f32, to = DType::f32;
};
cudaError_t move(cudaStream_t stream, const Pieces& pieces);
/// Writes into `wrong` (memory of the host that the device sees) the row of an element that is not
/// what move() should have made; leaves it alone where there is none. Independent of move(): the
/// nearest number is no farther than half a step.
cudaError_t check(cudaStream_t stream, const Pieces& pieces, std::int64_t* wrong);

/// A collective among ranks whose buffers one GPU can read.
inline constexpr int kMostMembers = 32;
struct Pull {
  OpKind kind = OpKind::all_gather;
  DType type = DType::f32;
  const void* const* in = nullptr;  ///< by member: what it sends
  void* out = nullptr;
  int members = 0, me = 0;
  std::array<std::uint16_t, kMostMembers> position{};  ///< of each member in the group
  std::int64_t elements = 0;  ///< that one member has in `in`, or a share of it
  int processors = 0;         ///< that it takes
};
cudaError_t pull(cudaStream_t stream, const Pull& pull);
/// As above: a row of `out` that is not what the members sent.
cudaError_t check(cudaStream_t stream, const Pull& pull, std::int64_t* wrong);

}  // namespace foregather::runtime::cuda
