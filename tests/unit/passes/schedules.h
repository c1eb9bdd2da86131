// Schedules that passes are tested on, and what must hold after each.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "sim/passes/pass.h"
#include "tasks/schedule.h"

namespace foregather::test {

/// A workload or dump as the command line would load it, with passes; throws what is wrong.
tasks::Schedule loaded(const std::string& path, const std::vector<std::string>& sets,
                       const std::vector<std::string>& passes = {});
/// The same of traces/samples/NAME.toml.
tasks::Schedule sample_with(const std::string& name, const std::vector<std::string>& sets,
                            const std::vector<std::string>& passes = {});

/// 10 µs an op and 1 ns for each 1,000 bytes that it touches; the host takes 1 µs.
sim::CostTable made_up_prices(const Graph& graph);

/// Applies passes in order, at made_up_prices() and on a device of 80 GiB; throws what is wrong.
/// `notes` gets what they did.
Graph passed(Graph graph, const std::vector<std::string>& passes,
             std::vector<sim::PassNote>* notes = nullptr);

/// Of the live tensors of the first program, steady.
Bytes live_peak(const Graph& graph);

/// Launches of the body, in host order of the first program.
std::vector<OpId> launches(const Graph& graph, Section section = Section::body);
/// But for casts and copies, which come and go with the gathers that they serve.
std::int64_t body_flops(const Graph& graph);
/// Of all launches.
std::int64_t all_flops(const Graph& graph);
std::size_t count(const Graph& graph, Role role, Section section = Section::body);
Bytes gathered_bytes(const Graph& graph);
/// Op keys of all rows without what a communicator adds (its numbers change when ops move).
std::vector<std::string> keys(const Graph& graph);
/// The messages of validate(), joined; empty: the graph is valid.
std::string problems(const Graph& graph);

}  // namespace foregather::test
