// Reading, computing, writing.
#include <mma.h>

#include <type_traits>

#include "runtime/cuda/kernel_numbers.cuh"

namespace foregather::runtime::cuda {
namespace {

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

}  // namespace foregather::runtime::cuda
