#include "sim/cost/gemm.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "sim/cost/waves.h"

namespace foregather::sim {

namespace {

struct Tile {
  std::int64_t rows, columns;
  double rate;  ///< relative to the largest
};

/// Tiles that cuBLAS picks among. That smaller ones run slower is NVIDIA's "Matrix Multiplication
/// Background User's Guide" (tile quantisation and efficiency); the ratios are assumed.
constexpr std::array kTiles{Tile{256, 128, 1.0}, Tile{128, 256, 1.0}, Tile{128, 128, 0.9},
                            Tile{128, 64, 0.7}, Tile{64, 64, 0.5}};
/// Vector units have kernels for narrow outputs, too (cuBLAS: sgemm_128x32 and 32x32_sliced1x4);
/// the ratios are assumed.
constexpr std::array kVectorTiles{Tile{128, 128, 1.0}, Tile{128, 64, 0.9}, Tile{64, 64, 0.8},
                                  Tile{128, 32, 0.7},  Tile{32, 128, 0.7}, Tile{32, 32, 0.5}};
/// Steps of the reduction that tensor cores could do while a tile fills and drains its pipeline.
/// Vector units do fewer in that time.
constexpr double kPipelineSteps = 64;
constexpr std::int64_t kMostSplits = 16;

double efficiency(const Hardware& hardware, DType type) {
  const Hardware::Efficiency& e = hardware.efficiency;
  const bool is_f8 = type == DType::f8e4m3 || type == DType::f8e5m2;
  return is_f8 && e.gemm_f8 > 0 ? e.gemm_f8 : e.gemm;
}

/// How much slower cuBLAS multiplies where rows of its operands do not begin at 16 bytes: measured
/// on an H200 in bf16 (traces/measured/h200_products.csv), 2.4 to 3.1 times where they begin at 4
/// or 8, 4.5 to 7.6 times at 2. Assumed for other GPUs that load operands by TMA, which needs the
/// 16 bytes.
constexpr double kRowsOfFour = 2.8;
constexpr double kRowsOfTwo = 5.5;
/// Of GPUs without it, wherever the rows begin: timm's published training steps of vision
/// transformers on an RTX 3090 (benchmark-train-amp-nchw-pt112-cu113-rtx3090.csv) say 2.1 to 2.6 of
/// eager attention over 577 and 785 tokens, and 197 and 198 tokens take the same time.
constexpr double kWithoutTma = 2.2;

/// fp32 is, and bf16 where the hardware has no units for it.
bool is_on_vector_units(const Cost& cost, const Hardware& hardware) {
  return cost.dtype == DType::f32 ||
         (cost.dtype == DType::bf16 && hardware.compute.matmul_bf16 == 0);
}

double alignment(const Cost& cost, const Hardware& hardware) {
  if (size_of(cost.dtype) != 2 || is_on_vector_units(cost, hardware)) return 1;
  constexpr std::int64_t kWord = 8;
  const std::int64_t rows = cost.n | cost.k;
  if (rows % kWord == 0) return 1;
  const double capability = hardware.compute.compute_capability;
  if (capability < 90 || capability >= 120) return kWithoutTma;
  return rows % 2 == 0 ? kRowsOfFour : kRowsOfTwo;
}

double compute_time(const Cost& cost, const Hardware& hardware) {
  const double per_ns = matmul_rate(hardware, cost.dtype) * efficiency(hardware, cost.dtype) /
                        alignment(cost, hardware) / 1e9;
  if (cost.m <= 0 || cost.n <= 0 || cost.k <= 0) return static_cast<double>(cost.flops) / per_ns;
  const double sms = hardware.compute.sms;
  const double batch = std::max(static_cast<double>(cost.batch), 1.0);
  const double outputs = batch * static_cast<double>(cost.m) * static_cast<double>(cost.n);
  // One split's fp32 partial sums, written and read again.
  const double partial_sums = 8.0 * outputs / (hardware.memory.bandwidth / 1e9);

  const bool is_vector = is_on_vector_units(cost, hardware);
  const double tensor_rate =
      std::max(matmul_rate(hardware, DType::bf16), matmul_rate(hardware, DType::f16));
  const double pipeline_steps =
      kPipelineSteps *
      (is_vector ? std::min(matmul_rate(hardware, DType::f32) / tensor_rate, 1.0) : 1.0);
  double best = -1;
  for (const Tile& tile : is_vector ? std::span<const Tile>(kVectorTiles) : kTiles) {
    const double tiles = batch * ceil_div(cost.m, tile.rows) * ceil_div(cost.n, tile.columns);
    const double flops_per_step = 2.0 * static_cast<double>(tile.rows * tile.columns);
    const double step = flops_per_step * sms / (per_ns * tile.rate);
    for (std::int64_t splits = 1; splits <= kMostSplits; splits *= 2) {
      const auto parts = static_cast<double>(splits);
      if (splits > 1 && tiles * parts > sms) break;
      const double steps = ceil_div(cost.k, splits) + pipeline_steps;
      const double time =
          waves_of(tiles * parts, sms) * steps * step + (splits > 1 ? parts * partial_sums : 0.0);
      if (best < 0 || time < best) best = time;
    }
  }
  return best;
}

}  // namespace

double matmul_rate(const Hardware& hardware, DType type) {
  const Hardware::Compute& c = hardware.compute;
  double rate = c.matmul_f32;
  switch (type) {
    case DType::bf16: rate = c.matmul_bf16 > 0 ? c.matmul_bf16 : c.matmul_f32; break;
    case DType::f16: rate = c.matmul_f16; break;
    case DType::f8e4m3:
    case DType::f8e5m2: rate = c.matmul_f8 > 0 ? c.matmul_f8 : c.matmul_f16; break;
    case DType::f64: rate = c.matmul_f64; break;
    default: break;
  }
  return rate * c.sustained_clock;
}

Work gemm_work(const Cost& cost, const Hardware& hardware) {
  const double bytes =
      static_cast<double>(cost.bytes_read) + static_cast<double>(cost.bytes_written);
  const double peak = hardware.memory.bandwidth / 1e9;
  const double memory = bytes / (peak * hardware.efficiency.copy);
  Work work;
  work.time = std::max(compute_time(cost, hardware), memory) +
              hardware.kernel.gemm_ramp * std::max<double>(cost.kernels, 1);
  work[Resource::sm] = 1;
  work[Resource::hbm] = bytes / peak / work.time;
  return work;
}

}  // namespace foregather::sim
