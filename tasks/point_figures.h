// The figures of one candidate of many: what `simulate` says of it, without the run behind it.
#pragma once

#include "core/ir/graph.h"
#include "core/run/sweep.h"
#include "sim/cost/hardware.h"
#include "sim/engine/simulation.h"
#include "tasks/stages.h"
#include "tasks/steps/step_reader.h"
#include "tasks/summary.h"

namespace foregather::tasks {

/// What a summary says of a candidate.
run::PointFigures figures_of(const Summary& summary);

/// Reads simulations of one schedule after the other. Keeps its buffers between them; used by one
/// thread.
class FigureReader {
 public:
  /// What follows is of this graph, which is borrowed.
  void begin(const Graph& graph) {
    graph_ = &graph;
    steps_.begin(graph);
  }

  /// The same as figures_of() of the simulation's summary, without its warnings; `compute_scale` is
  /// PriceChanges::compute. Cost: linear in the ops.
  run::PointFigures read(const sim::Simulation& simulation, const sim::Hardware& hardware,
                         double compute_scale, const DeviceLimits& limits);

 private:
  const Graph* graph_ = nullptr;
  StepReader steps_;
};

}  // namespace foregather::tasks
