// The use case of `foregather merge`.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"

namespace foregather::tasks {

/// Joins databases into a new one: the parts of one sweep, or runs, each under its own name.
/// Errors: sweeps of different grids, points that differ, runs of one name, a mixture.
Status merge(const std::vector<std::string>& paths, const std::string& output);

}  // namespace foregather::tasks
