// What no schedule of the same ops can beat: lower bounds of a steady step's time. For memory see
// sim/memory/memory_bound.h.
#pragma once

#include <span>
#include <vector>

#include "core/base/units.h"
#include "core/ir/graph.h"
#include "sim/cost/cost_table.h"

namespace foregather::sim {

/// Lower bounds of the time between the ends of two steady steps; the largest is the bound.
struct TimeBounds {
  Ns dependencies = 0;  ///< longest way along data and explicit dependencies from step to step
  Ns stream = 0;        ///< durations on the busiest stream
  Ns communicator = 0;  ///< durations on the busiest communicator

  Ns bound() const;
};

/// Of the slowest class, with every op at full rate. Streams and communicators: the body's
/// durations add up. Dependencies: a value that one op writes and a later op reads. The way counts
/// only where it leads from an op to the same op of a later step, since steps without such a way
/// could overlap without end. Assumes that the simulation repeats (Simulation::converged).
///
/// Cost: linear in the accesses of four bodies.
TimeBounds step_time_bounds(const Graph& graph, std::span<const CostTable> prices);
/// Durations of the body on each stream and then on each communicator, of one class.
std::vector<Ns> busy_times(const Graph& graph, const RankClass& rank_class,
                           std::span<const CostTable> prices);
/// The same bounds of one class.
TimeBounds step_time_bounds(const Graph& graph, const RankClass& rank_class,
                            std::span<const CostTable> prices);

}  // namespace foregather::sim
