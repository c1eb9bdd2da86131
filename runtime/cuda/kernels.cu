#include "runtime/cuda/kernels.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <mma.h>

#include <algorithm>
#include <type_traits>

namespace foregather::runtime::cuda {
namespace {

constexpr int kThreads = 256;
constexpr Bytes kWord = 16;  ///< bytes of one access

__host__ __device__ constexpr int element_size(DType type) {
  switch (type) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::bf16:
    case DType::f16: return 2;
    default: return 1;
  }
}
__host__ __device__ constexpr bool is_integer(DType type) {
  return type == DType::i64 || type == DType::i32 || type == DType::u8 || type == DType::boolean;
}

template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), std::int64_t blocks, cudaStream_t stream,
                   Arguments... arguments) {
  if (blocks <= 0) return cudaSuccess;
  void* values[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  const dim3 grid(static_cast<unsigned>(std::min<std::int64_t>(blocks, 1 << 30)));
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, dim3(kThreads), values, 0,
                          stream);
}

__device__ std::int64_t first_row() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::int64_t rows_at_once() { return std::int64_t{gridDim.x} * blockDim.x; }

// ---- Numbers ------------------------------------------------------------------------------------

__device__ std::uint64_t mixed(std::uint64_t x) {
  x *= 0x9E3779B97F4A7C15ULL;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9ULL;
  return x ^ (x >> 32);
}

// Eight bytes of elements: random signs and fractions, the exponent of [1/2, 1).
__device__ std::uint64_t random_elements(DType type, std::uint64_t seed, std::uint64_t row) {
  const std::uint64_t x = mixed(seed + row);
  switch (type) {
    case DType::f32: return (x & 0x807fffff807fffffULL) | 0x3f0000003f000000ULL;
    case DType::bf16: return (x & 0x807f807f807f807fULL) | 0x3f003f003f003f00ULL;
    case DType::f16: return (x & 0x83ff83ff83ff83ffULL) | 0x3800380038003800ULL;
    case DType::f64: return (x & 0x800fffffffffffffULL) | 0x3fe0000000000000ULL;
    case DType::f8e4m3: return (x & 0x8787878787878787ULL) | 0x3030303030303030ULL;
    case DType::f8e5m2: return (x & 0x8383838383838383ULL) | 0x3838383838383838ULL;
    case DType::i64: return x & 0x3fULL;
    case DType::i32: return x & 0x0000003f0000003fULL;
    case DType::boolean: return x & 0x0101010101010101ULL;
    default: return x & 0x3f3f3f3f3f3f3f3fULL;
  }
}

__device__ float load(const void* from, DType type, std::int64_t i) {
  switch (type) {
    case DType::f32: return static_cast<const float*>(from)[i];
    case DType::bf16: return __bfloat162float(static_cast<const __nv_bfloat16*>(from)[i]);
    case DType::f16: return __half2float(static_cast<const __half*>(from)[i]);
    case DType::f64: return static_cast<float>(static_cast<const double*>(from)[i]);
    case DType::f8e4m3: return static_cast<float>(static_cast<const __nv_fp8_e4m3*>(from)[i]);
    case DType::f8e5m2: return static_cast<float>(static_cast<const __nv_fp8_e5m2*>(from)[i]);
    case DType::i64: return static_cast<float>(static_cast<const std::int64_t*>(from)[i]);
    case DType::i32: return static_cast<float>(static_cast<const std::int32_t*>(from)[i]);
    default: return static_cast<float>(static_cast<const std::uint8_t*>(from)[i]);
  }
}

__device__ void store(void* to, DType type, std::int64_t i, float value) {
  const float small = fminf(fmaxf(value, 0.0F), 100.0F);  // what an integer gets
  switch (type) {
    case DType::f32: static_cast<float*>(to)[i] = value; return;
    case DType::bf16: static_cast<__nv_bfloat16*>(to)[i] = __float2bfloat16_rn(value); return;
    case DType::f16: static_cast<__half*>(to)[i] = __float2half_rn(value); return;
    case DType::f64: static_cast<double*>(to)[i] = static_cast<double>(value); return;
    case DType::f8e4m3: static_cast<__nv_fp8_e4m3*>(to)[i] = __nv_fp8_e4m3(value); return;
    case DType::f8e5m2: static_cast<__nv_fp8_e5m2*>(to)[i] = __nv_fp8_e5m2(value); return;
    case DType::i64: static_cast<std::int64_t*>(to)[i] = static_cast<std::int64_t>(small); return;
    case DType::i32: static_cast<std::int32_t*>(to)[i] = static_cast<std::int32_t>(small); return;
    default: static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(small); return;
  }
}

// Integers as they are, so that sums of large ones keep their last digit.
__device__ std::int64_t load_integer(const void* from, DType type, std::int64_t i) {
  switch (type) {
    case DType::i64: return static_cast<const std::int64_t*>(from)[i];
    case DType::i32: return static_cast<const std::int32_t*>(from)[i];
    default: return static_cast<const std::uint8_t*>(from)[i];
  }
}
__device__ void store_integer(void* to, DType type, std::int64_t i, std::int64_t value) {
  switch (type) {
    case DType::i64: static_cast<std::int64_t*>(to)[i] = value; return;
    case DType::i32: static_cast<std::int32_t*>(to)[i] = static_cast<std::int32_t>(value); return;
    default: static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(value); return;
  }
}

// Half the distance between neighbouring numbers in [1/2, 1), and between the smallest ones; and
// the largest number.
__device__ void precision_of(DType type, double& half_step, double& least, double& most) {
  switch (type) {
    case DType::f64: half_step = 0x1p-54, least = 0, most = 1.7e308; return;
    case DType::f32: half_step = 0x1p-25, least = 0x1p-150, most = 3.4e38; return;
    case DType::bf16: half_step = 0x1p-9, least = 0x1p-134, most = 3.38e38; return;
    case DType::f16: half_step = 0x1p-12, least = 0x1p-25, most = 65504; return;
    case DType::f8e4m3: half_step = 0x1p-5, least = 0x1p-10, most = 448; return;
    case DType::f8e5m2: half_step = 0x1p-4, least = 0x1p-17, most = 57344; return;
    default: half_step = 0, least = 0, most = 0; return;
  }
}

// ---- Reading, computing, writing ----------------------------------------------------------------

__global__ void fill_kernel(void* to, Bytes bytes, DType type, std::uint64_t seed) {
  auto* const words = static_cast<std::uint64_t*>(to);
  for (std::int64_t i = first_row(); i < bytes / 8; i += rows_at_once())
    words[i] = random_elements(type, seed, static_cast<std::uint64_t>(i));
  const auto last = static_cast<std::uint64_t>(bytes / 8);
  const std::int64_t row = first_row();
  if (row < bytes % 8)
    static_cast<std::uint8_t*>(to)[bytes / 8 * 8 + row] =
        static_cast<std::uint8_t>(random_elements(type, seed, last) >> (8 * row));
}

__global__ void spin_kernel(Ns time) {
  std::uint64_t begin = 0, now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - begin < static_cast<std::uint64_t>(time));
}

// Chains of fused multiply-adds; two FLOPs each.
template <class Number>
__device__ Number multiply_add(std::int64_t flops) {
  const std::int64_t each = flops / 2 / rows_at_once();
  Number a = static_cast<Number>(threadIdx.x), b = a + 1, c = a + 2, d = a + 3;
  const auto x = static_cast<Number>(0.999);
  for (std::int64_t i = 0; i < each; i += 4) {
    a = a * x + x;
    b = b * x + x;
    c = c * x + x;
    d = d * x + x;
  }
  return a + b + c + d;
}

// Products of 16×16 blocks, of numbers in registers: 8192 FLOPs for a warp.
template <class Number>
__device__ float multiply_blocks(std::int64_t flops) {
  using namespace nvcuda;
  constexpr int kAtOnce = 4;  // independent sums, so that units do not wait
  wmma::fragment<wmma::matrix_a, 16, 16, 16, Number, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, Number, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[kAtOnce];
  for (int i = 0; i < a.num_elements; ++i)
    a.x[i] = static_cast<std::remove_reference_t<decltype(a.x[0])>>(
        static_cast<float>((threadIdx.x + i) % 7) - 3.0F);
  for (int i = 0; i < b.num_elements; ++i)
    b.x[i] = static_cast<std::remove_reference_t<decltype(b.x[0])>>(
        static_cast<float>((threadIdx.x + i) % 5) - 2.0F);
  for (auto& each : sum) wmma::fill_fragment(each, 0.0F);
  const std::int64_t products = flops / (2 * 16 * 16 * 16) / (rows_at_once() / warpSize);
  for (std::int64_t i = 0; i < products; i += kAtOnce)
#pragma unroll
    for (auto& each : sum) wmma::mma_sync(each, a, b, each);
  float total = 0;
  for (auto& each : sum) total += each.x[0];
  return total;
}

__device__ uint4 exclusive_or(uint4 a, uint4 b) {
  return {a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w};
}

__device__ const uint4* whole_words(const Segment& segment, std::int64_t& count) {
  const auto begin = reinterpret_cast<std::uintptr_t>(segment.data);
  const std::uintptr_t first = (begin + kWord - 1) / kWord * kWord;
  const std::uintptr_t end = begin + static_cast<std::uintptr_t>(segment.bytes);
  count = end > first ? static_cast<std::int64_t>((end - first) / kWord) : 0;
  return reinterpret_cast<const uint4*>(first);
}

template <Unit kUnit>
__global__ void traffic_kernel(const __grid_constant__ Traffic traffic) {
  uint4 seen{};
  for (int s = 0; s < traffic.reads; ++s) {
    std::int64_t count = 0;
    const uint4* const words = whole_words(traffic.read[s], count);
#pragma unroll 4
    for (std::int64_t i = first_row(); i < count; i += rows_at_once())
      seen = exclusive_or(seen, __ldcs(words + i));
  }
  double result = 0;
  if (traffic.flops > 0) {
    if constexpr (kUnit == Unit::vector) result = multiply_add<float>(traffic.flops);
    if constexpr (kUnit == Unit::vector_f64) result = multiply_add<double>(traffic.flops);
    if constexpr (kUnit == Unit::matrix_bf16)
      result = multiply_blocks<__nv_bfloat16>(traffic.flops);
    if constexpr (kUnit == Unit::matrix_f16) result = multiply_blocks<__half>(traffic.flops);
  }
  const std::uint64_t all = static_cast<std::uint64_t>(__double_as_longlong(result)) ^
                            (std::uint64_t{seen.x ^ seen.y} << 32) ^ (seen.z ^ seen.w);
  if (all == 0x9E3779B97F4A7C15ULL) *traffic.sink = all;
  for (int s = 0; s < traffic.writes; ++s) {
    std::int64_t count = 0;
    auto* const words = const_cast<uint4*>(whole_words(traffic.write[s], count));
    const std::uint64_t seed = traffic.seed + static_cast<std::uint64_t>(s) * 0x10001;
    for (std::int64_t i = first_row(); i < count; i += rows_at_once()) {
      const auto row = static_cast<std::uint64_t>(i) * 2;
      const std::uint64_t low = random_elements(traffic.type[s], seed, row);
      const std::uint64_t high = random_elements(traffic.type[s], seed, row + 1);
      __stcs(words + i, uint4{static_cast<unsigned>(low), static_cast<unsigned>(low >> 32),
                              static_cast<unsigned>(high), static_cast<unsigned>(high >> 32)});
    }
  }
}

// ---- Copies and casts ---------------------------------------------------------------------------

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

__device__ double as_double(const void* from, DType type, std::int64_t i) {
  return type == DType::f64 ? static_cast<const double*>(from)[i]
                            : static_cast<double>(load(from, type, i));
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

// ---- Collectives --------------------------------------------------------------------------------

// What member m's part of `out` comes from, where the result is a copy.
__device__ bool source_of(const Pull& pull, int m, const std::uint8_t*& from, std::int64_t& to) {
  const std::int64_t bytes = pull.elements * element_size(pull.type);
  from = static_cast<const std::uint8_t*>(pull.in[m]);
  to = 0;
  switch (pull.kind) {
    case OpKind::all_gather: to = bytes * pull.position[m]; return true;
    case OpKind::all_to_all:
      from += bytes * pull.position[pull.me];
      to = bytes * pull.position[m];
      return true;
    case OpKind::broadcast: return m == 0;
    default: return m == (pull.me + pull.members - 1) % pull.members;  // send_recv
  }
}

__global__ void copy_pull_kernel(const __grid_constant__ Pull pull) {
  const std::int64_t bytes = pull.elements * element_size(pull.type);
  for (int m = 0; m < pull.members; ++m) {
    const std::uint8_t* from = nullptr;
    std::int64_t at = 0;
    if (!source_of(pull, m, from, at)) continue;
    auto* const to = static_cast<std::uint8_t*>(pull.out) + at;
    if (to == from) continue;
    const std::uintptr_t place =
        reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to);
    std::int64_t done = 0;
    if (place % kWord == 0) {
      done = bytes / kWord * kWord;
#pragma unroll 4
      for (std::int64_t i = first_row(); i < bytes / kWord; i += rows_at_once())
        reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
    }
    for (std::int64_t i = done + first_row(); i < bytes; i += rows_at_once()) to[i] = from[i];
  }
}

__device__ std::int64_t first_summed(const Pull& pull) {
  return pull.kind == OpKind::reduce_scatter ? pull.elements * pull.position[pull.me] : 0;
}

__global__ void sum_pull_kernel(const __grid_constant__ Pull pull) {
  const std::int64_t first = first_summed(pull);
  for (std::int64_t i = first_row(); i < pull.elements; i += rows_at_once()) {
    if (is_integer(pull.type)) {
      std::int64_t sum = 0;
      for (int m = 0; m < pull.members; ++m) sum += load_integer(pull.in[m], pull.type, first + i);
      store_integer(pull.out, pull.type, i, sum);
    } else if (pull.type == DType::f64) {
      double sum = 0;
      for (int m = 0; m < pull.members; ++m)
        sum += static_cast<const double*>(pull.in[m])[first + i];
      static_cast<double*>(pull.out)[i] = sum;
    } else {
      float sum = 0;
      for (int m = 0; m < pull.members; ++m) sum += load(pull.in[m], pull.type, first + i);
      store(pull.out, pull.type, i, sum);
    }
  }
}

__global__ void check_copies_kernel(const __grid_constant__ Pull pull, std::int64_t* wrong) {
  const std::int64_t bytes = pull.elements * element_size(pull.type);
  for (int m = 0; m < pull.members; ++m) {
    const std::uint8_t* from = nullptr;
    std::int64_t at = 0;
    if (!source_of(pull, m, from, at)) continue;
    const auto* const got = static_cast<const std::uint8_t*>(pull.out) + at;
    for (std::int64_t i = first_row(); i < bytes; i += rows_at_once())
      if (got[i] != from[i]) *wrong = (at + i) / element_size(pull.type);
  }
}

__global__ void check_sums_kernel(const __grid_constant__ Pull pull, std::int64_t* wrong) {
  const std::int64_t first = first_summed(pull);
  double half_step = 0, least = 0, most = 0;
  precision_of(pull.type, half_step, least, most);
  for (std::int64_t i = first_row(); i < pull.elements; i += rows_at_once()) {
    if (is_integer(pull.type)) {
      std::int64_t sum = 0;
      for (int m = pull.members; m-- > 0;) sum += load_integer(pull.in[m], pull.type, first + i);
      std::int64_t differs = sum - load_integer(pull.out, pull.type, i);
      if (pull.type == DType::i32) differs = static_cast<std::int32_t>(differs);
      if (element_size(pull.type) == 1) differs = static_cast<std::uint8_t>(differs);
      if (differs != 0) *wrong = i;
      continue;
    }
    double sum = 0, size = 0;
    for (int m = pull.members; m-- > 0;) {
      const double value = as_double(pull.in[m], pull.type, first + i);
      sum += value;
      size += fabs(value);
    }
    const double got = as_double(pull.out, pull.type, i);
    if (isnan(sum) || isinf(sum) || fabs(sum) > most) continue;
    // Rounded once at the end, and the sum in single precision before.
    const double error = pull.type == DType::f64 ? 0x1p-52 : 0x1p-22;
    if (!(fabs(got - sum) <= 2 * half_step * fabs(sum) + error * pull.members * size + least))
      *wrong = i;
  }
}

bool is_sum(OpKind kind) {
  return kind == OpKind::reduce_scatter || kind == OpKind::all_reduce || kind == OpKind::reduce;
}
bool receives(const Pull& pull) { return pull.kind != OpKind::reduce || pull.me == 0; }

}  // namespace

cudaError_t fill(cudaStream_t stream, void* to, Bytes bytes, DType type, std::uint64_t seed) {
  constexpr std::int64_t kMostBlocks = 4096;
  const std::int64_t blocks = (bytes / 8 + kThreads) / kThreads;
  return launch(&fill_kernel, std::min(blocks, kMostBlocks), stream, to, bytes, type, seed);
}

cudaError_t spin(cudaStream_t stream, Ns time) {
  void* values[] = {&time};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&spin_kernel), dim3(1), dim3(1), values, 0,
                          stream);
}

// Small ops take few processors, as those of frameworks do.
cudaError_t perform(cudaStream_t stream, const Traffic& traffic, int processors) {
  Bytes bytes = 0;
  for (int s = 0; s < traffic.reads; ++s) bytes += traffic.read[s].bytes;
  for (int s = 0; s < traffic.writes; ++s) bytes += traffic.write[s].bytes;
  constexpr std::int64_t kBytesABlock = 4 * kWord * kThreads, kFlopsABlock = 1 << 20;
  const std::int64_t wanted = std::max(bytes / kBytesABlock, traffic.flops / kFlopsABlock) + 1;
  const std::int64_t blocks = std::min<std::int64_t>(wanted, std::int64_t{processors} * 4);
  switch (traffic.unit) {
    case Unit::vector: return launch(&traffic_kernel<Unit::vector>, blocks, stream, traffic);
    case Unit::vector_f64:
      return launch(&traffic_kernel<Unit::vector_f64>, blocks, stream, traffic);
    case Unit::matrix_bf16:
      return launch(&traffic_kernel<Unit::matrix_bf16>, blocks, stream, traffic);
    case Unit::matrix_f16:
      return launch(&traffic_kernel<Unit::matrix_f16>, blocks, stream, traffic);
  }
  return cudaErrorInvalidValue;
}

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

cudaError_t pull(cudaStream_t stream, const Pull& pull) {
  if (!receives(pull) || pull.elements == 0) return cudaSuccess;
  return launch(is_sum(pull.kind) ? &sum_pull_kernel : &copy_pull_kernel, pull.processors, stream,
                pull);
}

cudaError_t check(cudaStream_t stream, const Pull& pull, std::int64_t* wrong) {
  if (!receives(pull) || pull.elements == 0) return cudaSuccess;
  return launch(is_sum(pull.kind) ? &check_sums_kernel : &check_copies_kernel, pull.processors,
                stream, pull, wrong);
}

}  // namespace foregather::runtime::cuda
