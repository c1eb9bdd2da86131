// The use case of `foregather merge`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace foregather::tasks {

/// Of a sweep that was joined.
struct MergedSweep {
  std::int64_t points = 0;
  std::int64_t grid = 0;        ///< points that the grid has
  bool has_conditions = false;  ///< --where leaves some of them out
};

/// Joins databases into a new one: the parts of one sweep, or runs (then nothing is said), each
/// under its own name. Errors: sweeps of different grids, points that differ, runs of one name, a
/// mixture.
Result<std::optional<MergedSweep>> merge(const std::vector<std::string>& paths,
                                         const std::string& output);

}  // namespace foregather::tasks
