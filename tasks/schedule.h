// SOURCE -> a priced schedule, ready for the engine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "sim/cost/cost_table.h"
#include "sim/cost/hardware.h"
#include "sim/engine/engine.h"
#include "tasks/what_if.h"

namespace foregather::tasks {

struct Schedule {
  std::string name;      ///< of the source: its file name without folder and ending
  std::string model;     ///< "llama, 32 layers"; empty for a schedule dump
  std::string strategy;  ///< "fsdp2"; empty for a schedule dump
  std::string source_text;
  std::vector<std::string> inputs;  ///< the files that were read
  Graph graph;
  sim::Hardware hardware;
  std::vector<sim::CostTable> prices;  ///< by RankClass::hardware
  sim::EngineOptions engine;           ///< capacity without what lies outside the allocator
  Bytes capacity = 0;
  Bytes outside_allocator = 0;
  // Of a Thunder trace.
  std::optional<Bytes> estimator_peak;  ///< by Thunder's own rules
  Bytes argument_bytes = 0;             ///< that the caller of the traced function holds
  std::vector<std::string> warnings;
};

/// Reads, lowers and prices a workload, a schedule dump or a Thunder trace. `sets` are KEY=VALUE.
/// `backward`, where it is not empty, is the trace of the backward whose forward is `source`.
Result<Schedule> load_schedule(const std::string& source, const std::vector<std::string>& sets,
                               const WhatIf& what_if, const std::string& backward = {});

}  // namespace foregather::tasks
