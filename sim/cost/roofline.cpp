#include "sim/cost/roofline.h"

#include <algorithm>
#include <cstdint>

#include "sim/cost/gemm.h"
#include "sim/cost/waves.h"

namespace foregather::sim {

namespace {

constexpr std::int64_t kQueryBlock = 128;
constexpr double kBackwardFlops = 4.5;
/// SMs that a memory-bound kernel needs to reach full bandwidth, as a share; an assumption: a
/// collective on a fifth of the SMs does not slow it by taking those.
constexpr double kMemoryBoundSms = 0.5;
constexpr double kVectorEfficiency = 0.5;
/// Instructions, of which one is of doubles, in generated kernels that compute in doubles. A scale
/// of torchao's rowwise float8 compiles to 62 on sm_90, 11 of them double; an H200 takes 2.3 ps for
/// it (traces/measured/h200_float8_kernels.csv), which is that of 66 at the sustained clock. Units
/// for doubles that are half of those for fp32 or more have no part in it.
constexpr double kInstructionsADouble = 6;

/// Elements that an SM finds in a cycle where a kernel computes the place of each: 1.25 to 1.5 on
/// an A100, 1.0 to 1.5 on an H100, 1.5 to 1.8 on an H200 (recorded additions, products and copies
/// of strided or broadcast tensors, casts into fp32; docs/cost-model.md). Kernels on vectors are
/// bound by memory.
constexpr double kElementsACycle = 1.5;

double bytes_of(const Cost& cost) {
  return static_cast<double>(cost.bytes_read) + static_cast<double>(cost.bytes_written);
}

double kernels_of(const Cost& cost) { return std::max<double>(cost.kernels, 1); }

double memory_efficiency(const Hardware::Efficiency& efficiency, OpKind kind) {
  switch (kind) {
    case OpKind::norm: return efficiency.norm;
    case OpKind::softmax: return efficiency.softmax;
    case OpKind::embedding: return efficiency.embedding;
    case OpKind::cross_entropy: return efficiency.cross_entropy;
    case OpKind::reduction: return efficiency.reduction;
    case OpKind::optimizer: return efficiency.optimizer;
    case OpKind::copy: return efficiency.copy;
    case OpKind::cast: return efficiency.cast;
    case OpKind::fill: return efficiency.fill;
    default: return efficiency.elementwise;
  }
}

bool is_double(const Cost& cost) { return cost.dtype == DType::f64; }

double vector_rate(const Cost& cost, const Hardware::Compute& compute) {
  if (!is_double(cost)) return compute.vector_f32;
  if (cost.kind != OpKind::fused && cost.kind != OpKind::elementwise) return compute.vector_f64;
  return std::min(compute.vector_f64, compute.vector_f32 / kInstructionsADouble);
}

double vector_time(const Cost& cost, const Hardware& hardware) {
  const Hardware::Compute& compute = hardware.compute;
  const double rate = vector_rate(cost, compute);
  if (rate == 0) return 0;
  return static_cast<double>(cost.flops) /
         (rate * compute.sustained_clock * kVectorEfficiency / 1e9);
}

// Of elements that are found one by one.
double index_time(const Cost& cost, const Hardware::Compute& compute) {
  if (cost.kind != OpKind::elementwise && cost.kind != OpKind::copy && cost.kind != OpKind::cast)
    return 0;
  return static_cast<double>(cost.m) /
         (compute.sms * compute.boost_clock * compute.sustained_clock * kElementsACycle / 1e9);
}

struct AttentionRate {
  double efficiency = 0;
  double ramp = 0;
  double at_half = 0;  ///< of heads of 64, in terms of those of 128
};

AttentionRate rate_of(AttentionKernels kernels, bool backward, const Hardware& hardware) {
  const Hardware::Efficiency& efficiency = hardware.efficiency;
  const Hardware::Kernel& kernel = hardware.kernel;
  if (kernels == AttentionKernels::cudnn)
    return backward ? AttentionRate{efficiency.cudnn_backward, kernel.cudnn_backward_ramp,
                                    efficiency.cudnn_backward_64}
                    : AttentionRate{efficiency.cudnn_forward, kernel.cudnn_ramp,
                                    efficiency.cudnn_forward_64};
  if (!backward)
    return {efficiency.attention_forward, kernel.attention_ramp, efficiency.attention_forward_64};
  const double own = kernel.attention_backward_ramp;
  return {efficiency.attention_backward, own > 0 ? own : kernel.attention_ramp,
          efficiency.attention_backward_64};
}

/// Rate of heads of `size` in that of heads of 128: a figure at 64 and below, between the two by
/// size.
double head_rate(double at_half, std::int64_t size) {
  constexpr std::int64_t kFull = 128;
  constexpr std::int64_t kHalf = 64;
  if (at_half == 0) return 1;
  const auto above = static_cast<double>(std::clamp(size, kHalf, kFull) - kHalf);
  return at_half + (1 - at_half) * above / (kFull - kHalf);
}

double memory_time(const Cost& cost, const Hardware& hardware) {
  const double peak = hardware.memory.bandwidth / 1e9;
  const double time = bytes_of(cost) / (peak * memory_efficiency(hardware.efficiency, cost.kind));
  const bool widens_chunks =
      cost.kind == OpKind::copy && cost.batch > 0 && cost.bytes_written > cost.bytes_read;
  if (!widens_chunks || hardware.kernel.chunk_cat == 0) return time;
  return std::max(time,
                  static_cast<double>(cost.bytes_written) / (hardware.kernel.chunk_cat / 1e9));
}

}  // namespace

Work attention_work(const Cost& cost, const Hardware& hardware, AttentionKernels kernels) {
  const double rate = matmul_rate(hardware, cost.dtype) / 1e9;
  const auto flops = static_cast<double>(cost.flops);
  const auto queries = static_cast<double>(cost.m);
  const auto keys = static_cast<double>(cost.n);
  const double batch = std::max<double>(static_cast<double>(cost.batch), 1);
  const double triples = batch * queries * keys * static_cast<double>(cost.k);
  const bool backward = triples > 0 && flops > kBackwardFlops * triples;
  const AttentionRate kernel = rate_of(kernels, backward, hardware);
  const double per_ns =
      rate * kernel.efficiency * (triples > 0 ? head_rate(kernel.at_half, cost.k) : 1);
  double time = flops / per_ns;
  if (triples > 0) {
    const double sms = hardware.compute.sms;
    const double waves = waves_of(batch * ceil_div(cost.m, kQueryBlock), sms);
    const double block_flops = flops / (batch * queries) * static_cast<double>(kQueryBlock);
    time = waves * block_flops * sms / per_ns * (keys + kernel.ramp) / keys;
  }
  const double peak = hardware.memory.bandwidth / 1e9;
  Work work;
  work.time = std::max(time, bytes_of(cost) / (peak * hardware.efficiency.copy)) +
              hardware.kernel.floor * kernels_of(cost);
  work[Resource::sm] = 1;
  work[Resource::hbm] = bytes_of(cost) / peak / work.time;
  return work;
}

Work memory_work(const Cost& cost, const Hardware& hardware) {
  const double peak = hardware.memory.bandwidth / 1e9;
  const double memory = memory_time(cost, hardware);
  const double vector = std::max(vector_time(cost, hardware), index_time(cost, hardware.compute));
  const double both = is_double(cost) ? memory + vector : std::max(memory, vector);
  Work work;
  work.time = both + hardware.kernel.floor * kernels_of(cost);
  work[Resource::sm] = vector > memory ? 1.0 : kMemoryBoundSms;
  work[Resource::hbm] = bytes_of(cost) / peak / work.time;
  return work;
}

Work host_copy_work(const Cost& cost, const Hardware& hardware) {
  // A cost may name one side of the copy or both.
  const auto bytes = static_cast<double>(std::max(cost.bytes_read, cost.bytes_written));
  Work work;
  work.time =
      bytes / (hardware.intra.host_bandwidth / 1e9) + hardware.kernel.floor * kernels_of(cost);
  work[Resource::hbm] = bytes / (hardware.memory.bandwidth / 1e9) / work.time;
  return work;
}

}  // namespace foregather::sim
