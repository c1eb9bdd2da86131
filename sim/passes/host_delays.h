// The host's own work between its launches: the delays of a schedule.
#pragma once

#include "core/ir/graph.h"

namespace foregather::sim {

/// A host thread has a delay that takes time.
bool has_host_delays(const Graph& graph);

/// Divides the time of every delay by `speed`. An action holds 4.3 s: a longer delay becomes
/// several actions, and who waits for it waits for the last. Linear in actions. False: the delays
/// would take more than 52 days more than now, and the graph is unspecified.
bool divide_host_delays(Graph& graph, double speed);

}  // namespace foregather::sim
