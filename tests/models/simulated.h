// A sample workload, loaded and simulated, for tests of laws.
#pragma once

#include <string>
#include <vector>

#include "sim/engine/engine.h"
#include "tasks/schedule.h"

namespace foregather::test {

/// traces/samples/NAME.toml with KEY=VALUE over it; throws what is wrong.
tasks::Schedule sample(const std::string& name, const std::vector<std::string>& sets);

/// Throws on a deadlock. The last step of the only class is the steady one.
sim::Simulation simulated(const tasks::Schedule& schedule);

/// The steady step's time.
Ns step_time(const sim::Simulation& simulation);
Ns step_time(const std::string& name, const std::vector<std::string>& sets);

/// Rows of the ops of the schedule's body in the order in which hosts launch them.
std::vector<OpId> body_ops(const Graph& graph);

/// Of the storages with that cause, each counted once.
Bytes bytes_of(const Graph& graph, Cause cause);

}  // namespace foregather::test
