#include "tasks/rates.h"

namespace foregather::tasks {

std::optional<double> tokens_per_second(const Graph& graph, Ns step) {
  const std::int64_t tokens = graph.tokens_per_rank_step;
  if (tokens == 0 || step <= 0) return std::nullopt;
  const double hundredths = static_cast<double>(tokens) * 1e11 / static_cast<double>(step);
  return static_cast<double>(static_cast<std::int64_t>(hundredths + 0.5)) / 100;
}

std::optional<double> mfu(const Graph& graph, const sim::Hardware& hardware, Ns step,
                          double compute_scale) {
  const sim::Hardware::Compute& compute = hardware.compute;
  const double peak = compute.matmul_bf16 > 0 ? compute.matmul_bf16 : compute.matmul_f16;
  const std::int64_t flops = graph.model_flops_per_rank_step;
  if (flops == 0 || step <= 0 || !(peak > 0)) return std::nullopt;
  const double share =
      static_cast<double>(flops) * 1e9 / static_cast<double>(step) / (peak * compute_scale);
  if (share > 1) return std::nullopt;
  return static_cast<double>(static_cast<std::int64_t>(share * 1e6 + 0.5)) / 1e6;
}

}  // namespace foregather::tasks
