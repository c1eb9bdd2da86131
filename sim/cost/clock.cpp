#include "sim/cost/clock.h"

#include <cstdint>
#include <vector>

namespace foregather::sim {

namespace {

bool multiplies_matrices(OpKind kind) { return kind == OpKind::gemm || kind == OpKind::attention; }

bool runs_on_sms(const Cost& cost) {
  return !cost.is_fixed && !is_collective(cost.kind) && cost.kind != OpKind::host_to_device &&
         cost.kind != OpKind::device_to_host;
}

/// Root of x³ − room·x = 1 in [1, most], `most` where it lies beyond: the energy of products that
/// take 1 at their own power, 1/x at x times the clock, beside kernels that leave `room`.
double faster_by(double room, double most) {
  double low = 1, high = most;
  for (int i = 0; i < 40; ++i) {
    const double x = (low + high) / 2;
    (x * x * x - room * x < 1 ? low : high) = x;
  }
  return low;
}

}  // namespace

double clock_under_power_limit(const Graph& graph, std::span<const Price> prices,
                               const Hardware::Compute& compute) {
  std::vector<std::uint32_t> ops(graph.costs.size());  // of each cost
  for (const Op& op : graph.ops) ++ops[op.cost.row()];
  double matrices = 0, others = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Cost& cost = graph.costs[i];
    if (!runs_on_sms(cost)) continue;
    (multiplies_matrices(cost.kind) ? matrices : others) +=
        ops[i] * static_cast<double>(prices[i].duration);
  }
  const double clock = compute.sustained_clock;
  if (matrices == 0 || others == 0) return clock;
  return clock * faster_by(others / matrices * (1 - compute.memory_bound_power), 1 / clock);
}

}  // namespace foregather::sim
