// Which plans cannot run.
#pragma once

#include "core/base/result.h"
#include "core/plan/tape.h"
#include "core/plan/workload.h"

namespace foregather::plan {

/// The error of a plan that its strategy cannot run, with the key to change.
Status check_plan(const Model& model, const Workload& workload);

}  // namespace foregather::plan
