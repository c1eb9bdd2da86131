// The use case of `foregather simulate`: SOURCE in, figures and a run out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/run/run.h"
#include "tasks/schedule.h"
#include "tasks/summary.h"

namespace foregather::tasks {

struct SimulateRequest {
  // What changes the result.
  Sources sources;
  std::vector<std::string> sets;     ///< KEY=VALUE, in order
  std::vector<std::string> what_if;  ///< passes, in order
  MemoryModel memory_model = MemoryModel::allocator;
  // What changes only what is kept.
  bool record_memory = true;  ///< allocations and memory curves in the run
  bool dump = false;          ///< the schedule as text (core/ir/dump.h)
  bool ranges = true;         ///< bounds and intervals, which cost as much as the prediction itself
};

struct Outcome {
  Summary summary;
  run::Run run;
  std::string dump;
  std::vector<std::string> inputs;  ///< the files that were read: outputs must be others
};

/// Predicts the first and the steady step. Out of memory is a result. Errors: bad input, at its
/// place.
Result<Outcome> simulate(const SimulateRequest& request);

}  // namespace foregather::tasks
