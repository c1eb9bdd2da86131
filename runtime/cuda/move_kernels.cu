// Copies and casts.
#include "runtime/cuda/kernel_numbers.cuh"

namespace foregather::runtime::cuda {
namespace {

constexpr std::int64_t kTileBytes = 32 * KiB;

struct TiledPieces {
  Pieces pieces;
  std::array<std::int64_t, kPieces> tiles_before;
  std::int64_t tile;  ///< elements
};
static_assert(sizeof(TiledPieces) <= 4096, "as many bytes as the parameters of a kernel may have");

TiledPieces tiled(const Pieces& pieces, std::int64_t& tiles) {
  TiledPieces result{pieces, {}, kTileBytes / element_size(pieces.from)};
  tiles = 0;
  for (int i = 0; i < pieces.count; ++i) {
    result.tiles_before[i] = tiles;
    tiles += (pieces.piece[i].elements + result.tile - 1) / result.tile;
  }
  return result;
}

// The piece and the elements of this block.
__device__ const Piece& piece_of_block(const TiledPieces& tiled, std::int64_t& first,
                                       std::int64_t& end) {
  int low = 0, high = tiled.pieces.count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (tiled.tiles_before[middle] <= blockIdx.x)
      low = middle;
    else
      high = middle - 1;
  }
  const Piece& piece = tiled.pieces.piece[low];
  first = (blockIdx.x - tiled.tiles_before[low]) * tiled.tile;
  end = first + tiled.tile < piece.elements ? first + tiled.tile : piece.elements;
  return piece;
}

__global__ void copy_kernel(const __grid_constant__ TiledPieces tiled, int size) {
  std::int64_t first = 0, end = 0;
  const Piece& piece = piece_of_block(tiled, first, end);
  const auto* const from = static_cast<const std::uint8_t*>(piece.from) + first * size;
  auto* const to = static_cast<std::uint8_t*>(piece.to) + first * size;
  const Bytes bytes = (end - first) * size;
  const std::uintptr_t place =
      reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to);
  Bytes done = 0;
  if (place % kWord == 0) {
    done = bytes / kWord * kWord;
#pragma unroll 4
    for (Bytes i = threadIdx.x; i < bytes / kWord; i += blockDim.x)
      reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  } else if (place % 4 == 0) {
    done = bytes / 4 * 4;
    for (Bytes i = threadIdx.x; i < bytes / 4; i += blockDim.x)
      reinterpret_cast<std::uint32_t*>(to)[i] = reinterpret_cast<const std::uint32_t*>(from)[i];
  }
  for (Bytes i = done + threadIdx.x; i < bytes; i += blockDim.x) to[i] = from[i];
}

__global__ void cast_kernel(const __grid_constant__ TiledPieces tiled) {
  std::int64_t first = 0, end = 0;
  const Piece& piece = piece_of_block(tiled, first, end);
  const DType from = tiled.pieces.from, to = tiled.pieces.to;
  if (is_integer(from) && is_integer(to)) {
    for (std::int64_t i = first + threadIdx.x; i < end; i += blockDim.x)
      store_integer(piece.to, to, i, load_integer(piece.from, from, i));
    return;
  }
#pragma unroll 4
  for (std::int64_t i = first + threadIdx.x; i < end; i += blockDim.x)
    store(piece.to, to, i, load(piece.from, from, i));
}

__global__ void check_pieces_kernel(const __grid_constant__ TiledPieces tiled,
                                    std::int64_t* wrong) {
  std::int64_t first = 0, end = 0;
  const Piece& piece = piece_of_block(tiled, first, end);
  const DType from = tiled.pieces.from, to = tiled.pieces.to;
  if (is_integer(from) || is_integer(to)) return;
  double half_step = 0, least = 0, most = 0;
  precision_of(to, half_step, least, most);
  // A number of double precision is rounded twice on the way.
  if (from == DType::f64 && from != to) half_step *= 1.001, half_step += 0x1p-24;
  for (std::int64_t i = first + threadIdx.x; i < end; i += blockDim.x) {
    const double in = as_double(piece.from, from, i), out = as_double(piece.to, to, i);
    if (isnan(in) || isinf(in) || fabs(in) > most || (in == 0 && out == 0)) continue;
    int exponent = 0;
    frexp(in, &exponent);  // in = x · 2^exponent, x in [1/2, 1)
    if (fabs(in - out) <= ldexp(half_step, exponent) + least) continue;
    *wrong = i;
  }
}

}  // namespace

cudaError_t move(cudaStream_t stream, const Pieces& pieces) {
  std::int64_t blocks = 0;
  const TiledPieces all = tiled(pieces, blocks);
  if (pieces.from == pieces.to)
    return launch(&copy_kernel, blocks, stream, all, element_size(pieces.from));
  return launch(&cast_kernel, blocks, stream, all);
}

cudaError_t check(cudaStream_t stream, const Pieces& pieces, std::int64_t* wrong) {
  std::int64_t blocks = 0;
  const TiledPieces all = tiled(pieces, blocks);
  return launch(&check_pieces_kernel, blocks, stream, all, wrong);
}

}  // namespace foregather::runtime::cuda
