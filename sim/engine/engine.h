// The discrete-event core: graph × prices -> times and memory.
#pragma once

#include <span>

#include "core/alloc/config.h"
#include "core/base/result.h"
#include "core/ir/graph.h"
#include "sim/cost/cost_table.h"
#include "sim/engine/simulation.h"

namespace foregather::sim {

/// Options that change the result.
struct EngineOptions {
  bool contention = true;  ///< overlapped ops share resources
  bool memory = true;      ///< run the allocator; off: peaks are 0
  Bytes capacity = 0;      ///< device bytes that the allocator may reserve; 0: unlimited
  alloc::AllocConfig alloc;
  bool record_memory = true;      ///< fill bindings and memory curves
  std::uint32_t max_bodies = 10;  ///< give up on convergence after so many steady steps
};

/// Simulates the first step and then steady steps until step time and reserved bytes repeat.
/// `prices` is indexed by RankClass::hardware. The graph must be valid (see validate()). Errors: a
/// deadlock (host threads or ranks that wait for each other), named by op key.
Result<Simulation> simulate(const Graph& graph, std::span<const CostTable> prices,
                            const EngineOptions& options);

}  // namespace foregather::sim
