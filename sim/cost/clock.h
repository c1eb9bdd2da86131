// The clock that a power limit allows a schedule.
#pragma once

#include <span>

#include "core/ir/graph.h"
#include "sim/cost/cost_table.h"
#include "sim/cost/hardware.h"

namespace foregather::sim {

/// The clock, as a fraction of boost_clock, at which the schedule's kernels draw the power limit on
/// average; `prices` are those at sustained_clock. Matrix products and attention draw the limit
/// at that clock, and a power that grows with the cube of theirs; other kernels draw
/// memory_bound_power. Between sustained_clock and boost_clock. Idle time, collectives and times
/// that the schedule gives are left out. Linear in the ops; + − × ÷ only.
double clock_under_power_limit(const Graph& graph, std::span<const Price> prices,
                               const Hardware::Compute& compute);

}  // namespace foregather::sim
