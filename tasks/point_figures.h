// The figures of one candidate of many: what `simulate` says of it, without the run behind it.
#pragma once

#include <vector>

#include "core/compare/intervals.h"
#include "core/ir/graph.h"
#include "core/run/sweep.h"
#include "sim/cost/hardware.h"
#include "sim/engine/simulation.h"
#include "tasks/stages.h"
#include "tasks/summary.h"

namespace foregather::tasks {

/// What a summary says of a candidate.
run::PointFigures figures_of(const Summary& summary);

/// Reads simulations of one schedule after the other. Keeps its buffers between them; used by one
/// thread.
class FigureReader {
 public:
  /// What follows is of this graph, which is borrowed.
  void begin(const Graph& graph) { graph_ = &graph; }

  /// The same as figures_of() of the simulation's summary, without its warnings; `compute_scale` is
  /// PriceChanges::compute. Cost: linear in the ops.
  run::PointFigures read(const sim::Simulation& simulation, const sim::Hardware& hardware,
                         double compute_scale, const DeviceLimits& limits);

 private:
  StepTimes times_of(const sim::Simulation& simulation, std::uint32_t rank_class);
  /// `last`: the op of the step that ends last.
  Ns host_bound(const sim::Simulation& simulation, std::uint32_t rank_class,
                const sim::OpTime& last);
  const compare::IntervalSet& work_of(const sim::Simulation& simulation, std::uint32_t rank_class);
  const std::vector<compare::Interval>& in_order(
      std::vector<std::vector<compare::Interval>>& by_stream);

  const Graph* graph_ = nullptr;
  std::vector<std::vector<compare::Interval>> compute_, comm_, all_;  ///< by stream
  std::vector<compare::Interval> merged_, spare_;
  std::vector<compare::IntervalSet> works_;  ///< by class; empty: not asked for yet
};

}  // namespace foregather::tasks
