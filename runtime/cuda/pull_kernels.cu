// Collectives among ranks of one GPU.
#include "runtime/cuda/kernel_numbers.cuh"

namespace foregather::runtime::cuda {
namespace {

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
