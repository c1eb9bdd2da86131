// The obviously right engine: one clock, everything looked at again at every instant. Quadratic.
// Times only, no allocator. The fast engine must agree with it to the nanosecond.
#pragma once

#include <span>
#include <vector>

#include "core/ir/graph.h"
#include "sim/cost/cost_table.h"

namespace foregather::sim {

struct SlowTime {
  Ns issued = -1, start = -1, transfer = -1, end = -1;
  friend bool operator==(const SlowTime&, const SlowTime&) = default;
};

/// [class][step][row − program.ops.first]; step 0 is init. Plays until every class has issued
/// `steps` steps after init, then lets the devices finish.
std::vector<std::vector<std::vector<SlowTime>>> simulate_slowly(const Graph& graph,
                                                                std::span<const CostTable> prices,
                                                                bool contention,
                                                                std::uint32_t steps);

}  // namespace foregather::sim
