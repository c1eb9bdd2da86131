// Model + plan -> schedule graph.
#pragma once

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/plan/tape.h"
#include "core/plan/workload.h"

namespace foregather::plan {

/// The schedule of one training step (sections init, first, body) of `model` under the resolved
/// workload, for all ranks as one class. Errors: a plan that the strategy cannot run.
Result<Graph> lower(const Model& model, const Workload& workload);

}  // namespace foregather::plan
