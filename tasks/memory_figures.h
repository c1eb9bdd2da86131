// Memory of a simulation, per class.
#pragma once

#include "core/ir/graph.h"
#include "sim/engine/simulation.h"
#include "tasks/summary.h"

namespace foregather::tasks {

/// Fills memory of all classes, which one needs most, and what ran out. With MemoryModel::live the
/// peaks are live bytes in program order.
void fill_memory(const Graph& graph, const sim::Simulation& simulation, Summary& summary);

/// Puts a peak that has no figures behind it in place of all of them: Thunder's estimator knows one
/// number.
void fill_estimate(Bytes peak, Summary& summary);

}  // namespace foregather::tasks
