// What the kernels share: launching, and numbers of any type.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>

#include "runtime/cuda/kernels.cuh"

namespace foregather::runtime::cuda {

inline constexpr int kThreads = 256;
inline constexpr Bytes kWord = 16;  ///< bytes of one access

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

inline __device__ std::int64_t first_row() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
inline __device__ std::int64_t rows_at_once() { return std::int64_t{gridDim.x} * blockDim.x; }

inline __device__ float load(const void* from, DType type, std::int64_t i) {
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

inline __device__ void store(void* to, DType type, std::int64_t i, float value) {
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
inline __device__ std::int64_t load_integer(const void* from, DType type, std::int64_t i) {
  switch (type) {
    case DType::i64: return static_cast<const std::int64_t*>(from)[i];
    case DType::i32: return static_cast<const std::int32_t*>(from)[i];
    default: return static_cast<const std::uint8_t*>(from)[i];
  }
}
inline __device__ void store_integer(void* to, DType type, std::int64_t i, std::int64_t value) {
  switch (type) {
    case DType::i64: static_cast<std::int64_t*>(to)[i] = value; return;
    case DType::i32: static_cast<std::int32_t*>(to)[i] = static_cast<std::int32_t>(value); return;
    default: static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(value); return;
  }
}

// Half the distance between neighbouring numbers in [1/2, 1), and between the smallest ones; and
// the largest number.
inline __device__ void precision_of(DType type, double& half_step, double& least, double& most) {
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

inline __device__ double as_double(const void* from, DType type, std::int64_t i) {
  return type == DType::f64 ? static_cast<const double*>(from)[i]
                            : static_cast<double>(load(from, type, i));
}

}  // namespace foregather::runtime::cuda
