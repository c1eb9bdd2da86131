// What a workload says and a prediction does not follow.
#pragma once

#include <string>
#include <vector>

#include "core/plan/workload.h"

namespace foregather::plan {

/// In the order of the key table: a warning, with its place, for each key that the user set and
/// that has no effect, because it belongs to other strategies or lacks what it needs. Then what no
/// key makes the schedule do: the loss scaling of fp16.
std::vector<std::string> workload_warnings(const Workload& workload);

}  // namespace foregather::plan
