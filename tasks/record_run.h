// What the engine computed, as a run.
#pragma once

#include <span>

#include "core/ir/graph.h"
#include "core/run/run.h"
#include "sim/cost/cost_table.h"
#include "sim/engine/simulation.h"

namespace foregather::tasks {

/// The first and the steady step of every class, ops in order of start. `about` is set by the
/// caller. `prices` is indexed by RankClass::hardware. Step numbers: 0 first, 1 steady. n log n in
/// ops.
run::Run record_run(const Graph& graph, std::span<const sim::CostTable> prices,
                    const sim::Simulation& simulation);

}  // namespace foregather::tasks
