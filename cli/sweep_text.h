// Rows of a sweep as tables.
#pragma once

#include <string>
#include <vector>

#include "tasks/sweep.h"

namespace foregather::cli {

/// A line a point: its settings, step time, memory, GPUs and what a token costs.
std::string points_table(const run::SweepInfo& info, const std::vector<run::SweepPoint>& points);

/// "1,000 points: 900 fit, 90 run out of memory, 10 failed".
std::string counts_text(const tasks::SweepCounts& counts);

}  // namespace foregather::cli
