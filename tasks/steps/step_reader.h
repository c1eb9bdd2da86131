// The times of the steps that a sweep simulates, read without the run behind them: this is done for
// each point.
#pragma once

#include <vector>

#include "core/compare/intervals.h"
#include "core/ir/graph.h"
#include "sim/engine/simulation.h"
#include "tasks/steps/step_times.h"

namespace foregather::tasks {

/// Reads simulations of one schedule after the other. Keeps its buffers between them; used by one
/// thread.
class StepReader {
 public:
  /// What follows is of this graph, which is borrowed.
  void begin(const Graph& graph) { graph_ = &graph; }

  /// Of the class's steady step: what a summary has of compare::busy_times(), and what
  /// compare::critical_path() says. Cost: linear in the ops.
  StepTimes read(const sim::Simulation& simulation, std::uint32_t rank_class);

 private:
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
