// What gpu-check records: kernels of 5 µs in a loop, or steps of products of about a millisecond.
//
//   gpu_kernels loop|products COUNT
//
// Prints the wall time of all launches and their end, in nanoseconds, after a round of warming up.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(call)                                                                 \
  if (const cudaError_t code = (call); code != cudaSuccess) {                       \
    std::fprintf(stderr, "gpu_kernels: %s: %s\n", #call, cudaGetErrorString(code)); \
    std::exit(1);                                                                   \
  }

namespace {

__global__ void wait(unsigned long long nanoseconds) {
  unsigned long long begin = 0, now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - begin < nanoseconds);
}

__global__ void multiply(int products, float* sink) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(a, __float2bfloat16(0.5F));
  wmma::fill_fragment(b, __float2bfloat16(-0.5F));
  wmma::fill_fragment(sum, 0.0F);
  for (int i = 0; i < products; ++i) wmma::mma_sync(sum, a, b, sum);
  if (sum.x[0] == 1.0F) *sink = sum.x[0];
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_loop = argc == 3 && std::strcmp(argv[1], "loop") == 0;
  const bool is_products = argc == 3 && std::strcmp(argv[1], "products") == 0;
  const int count = argc == 3 ? std::atoi(argv[2]) : 0;
  if ((!is_loop && !is_products) || count <= 0) {
    std::fprintf(stderr, "usage: gpu_kernels loop|products COUNT\n");
    return 2;
  }
  float* sink = nullptr;
  cudaDeviceProp properties{};
  CHECK(cudaGetDeviceProperties(&properties, 0));
  CHECK(cudaMalloc(&sink, sizeof *sink));
  const auto round = [&](int launches) {
    for (int i = 0; i < launches; ++i) {
      if (is_loop)
        wait<<<1, 1>>>(5000);
      else
        multiply<<<properties.multiProcessorCount * 4, 256>>>(4000, sink);
    }
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  };
  round(count / 10 + 1);
  const auto begin = std::chrono::steady_clock::now();
  round(count);
  const auto time = std::chrono::steady_clock::now() - begin;
  std::printf("%lld\n", static_cast<long long>(
                            std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()));
  return 0;
}
