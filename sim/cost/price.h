// Graph × hardware -> CostTable.
#pragma once

#include "core/base/result.h"
#include "sim/cost/cost_table.h"
#include "sim/cost/hardware.h"
#include "sim/cost/work.h"

namespace foregather::sim {

/// What a workload changes about the machine.
struct PriceOptions {
  double link_bandwidth_scale = 1.0;  ///< every link's bandwidth × this
  double compute_scale = 1.0;         ///< speed of compute × this
  double attention_speed = 1.0;       ///< speed of attention × this, on top
  bool cudnn_attention = false;  ///< by cuDNN's kernels, where the hardware has figures of them
  /// Attention measured of other kernels says nothing; else it is what the framework chose there.
  bool attention_is_stated = false;
  std::uint32_t gpus_per_node = 8;
  /// GPUs that the job has. The slowest of them is the one priced: compute without a time of its
  /// own takes slowest_of(ranks) spreads longer than the usual GPU's.
  std::uint32_t ranks = 1;
};

/// What the model says of any work but a collective; measured rows are not looked at.
Work compute_work(const Cost& cost, const Hardware& hardware);

/// Prices each row of graph.costs; deterministic (+ − × ÷ sqrt and table interpolation only).
/// Linear in the number of rows.
CostTable price(const Graph& graph, const Hardware& hardware, const PriceOptions& options);

}  // namespace foregather::sim
