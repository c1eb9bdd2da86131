// The reference step of the speed figures: Llama-3.1-70B, 80 blocks, FSDP2 over 64 H100, full
// activation checkpointing, foreach AdamW.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "core/plan/tape.h"
#include "core/plan/workload.h"
#include "sim/cost/cost_table.h"
#include "sim/cost/hardware.h"
#include "sim/cost/price.h"
#include "sim/engine/engine.h"

namespace foregather::bench {

struct ReferenceStep {
  plan::Workload workload;
  plan::Model model;
  sim::Hardware hardware;
  sim::PriceOptions pricing;
  sim::EngineOptions engine;
};

/// Aborts with a message if the tree's samples cannot be read.
ReferenceStep reference_step(const std::vector<std::string>& sets = {});
Graph lowered(const ReferenceStep& step);

/// The same job with each rank a class of its own, all with the one program.
Graph apart(Graph graph);

/// Of this process so far.
double peak_rss_mib();

/// What one steady step of all classes does.
struct StepCounts {
  std::int64_t launches = 0;
  std::int64_t allocator_calls = 0;  ///< alloc, free, release and record_stream
};
StepCounts count(const Graph& graph);

}  // namespace foregather::bench
