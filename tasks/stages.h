// From a schedule to what the engine takes: passes, prices, options.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/plan/workload.h"
#include "sim/cost/cost_table.h"
#include "sim/cost/hardware.h"
#include "sim/cost/price.h"
#include "sim/engine/engine.h"
#include "sim/engine/simulation.h"
#include "sim/passes/pass.h"

namespace foregather::tasks {

sim::PriceOptions price_options(const Graph& graph, const plan::Workload& machine,
                                const sim::PriceChanges& changes);

struct Rewritten {
  Graph graph;
  sim::PriceChanges prices;
  std::vector<sim::PassNote> notes;
  bool asked_prices = false;  ///< a pass went by times: on another machine it may do something else
};

/// Applies the passes in order, with DeepCompile's own where `machine` is a workload of it.
Result<Rewritten> rewrite(Graph graph, const std::vector<sim::Pass>& what_if,
                          const plan::Workload& machine, const sim::Hardware& hardware);

/// A pass that found nothing to do is a warning.
std::vector<std::string> warnings_of(const std::vector<sim::PassNote>& notes);

/// What a simulation left open.
std::vector<std::string> warnings_of(const sim::Simulation& simulation);

/// Prices for RankClass::hardware 0. Without `has_host` the host's work takes no time.
sim::CostTable priced(const Graph& graph, const plan::Workload& machine,
                      const sim::PriceChanges& changes, const sim::Hardware& hardware,
                      bool has_host);

/// A sum of times must stay far from the end of 64 bits.
Status check_step_length(const Graph& graph, const sim::CostTable& table);

/// Of one device.
struct DeviceLimits {
  sim::EngineOptions engine;  ///< capacity without what lies outside the allocator
  Bytes capacity = 0;
  Bytes outside_allocator = 0;
};
/// Errors: a bad allocator.conf, a device without room for anything.
Result<DeviceLimits> device_limits(const Graph& graph, const plan::Workload& machine,
                                   const sim::Hardware& hardware);

}  // namespace foregather::tasks
