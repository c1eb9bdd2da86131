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
#include "sim/passes/pass.h"

namespace foregather::tasks {

struct Schedule {
  std::string name;      ///< of the source: its file name without folder and ending
  std::string model;     ///< "llama, 32 layers"; empty for a schedule dump
  std::string strategy;  ///< "fsdp2"; empty for a schedule dump
  std::string batch;     ///< "micro-batch 8 × 320 tokens" of a workload
  std::string source_text;
  std::vector<std::string> inputs;  ///< the files that were read
  Graph graph;
  sim::Hardware hardware;
  std::vector<sim::CostTable> prices;  ///< by RankClass::hardware
  sim::EngineOptions engine;           ///< capacity without what lies outside the allocator
  Bytes capacity = 0;
  Bytes outside_allocator = 0;
  std::vector<sim::PassNote> what_if;  ///< what each pass did
  // Of a Thunder trace.
  std::optional<Bytes> estimator_peak;  ///< by Thunder's own rules
  Bytes argument_bytes = 0;             ///< that the caller of the traced function holds
  // Of a graph of nodes without a host.
  bool has_host = true;  ///< false: its actions take no time
  std::vector<std::string> warnings;
};

/// The files of one SOURCE.
struct SourceFiles {
  std::string first;
  std::string backward;                  ///< where not empty: the backward whose forward is `first`
  std::vector<std::string> other_ranks;  ///< of the job whose rank is `first`
};

/// Reads, lowers, rewrites by the passes in order, and prices a workload, a schedule dump, a
/// Thunder trace or the Chakra traces of some ranks. `sets` are KEY=VALUE. A pass that finds
/// nothing to do is a warning.
Result<Schedule> load_schedule(const SourceFiles& files, const std::vector<std::string>& sets,
                               const std::vector<sim::Pass>& what_if);
/// Of one file.
inline Result<Schedule> load_schedule(const std::string& source,
                                      const std::vector<std::string>& sets,
                                      const std::vector<sim::Pass>& what_if) {
  return load_schedule(SourceFiles{source, {}, {}}, sets, what_if);
}

}  // namespace foregather::tasks
