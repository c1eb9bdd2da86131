// Pairs of published results in the report, on the terminal and as JSON.
#pragma once

#include <string>
#include <vector>

#include "core/base/json_writer.h"
#include "tasks/validation/pairs.h"

namespace foregather::tasks {

/// A section: counts by kind, every pair, the worst what-ifs with what is behind them, results that
/// no column tells apart. Empty without pairs.
std::string pairs_markdown(const std::vector<RowResult>& rows);

/// Counts by kind and the bars. Empty without pairs.
std::string pairs_text(const std::vector<RowResult>& rows);

/// The fields `pair_counts`, `pairs` and `alike` of an object that is open; docs/formats.md.
void write_pairs(JsonWriter& json, const std::vector<RowResult>& rows);

}  // namespace foregather::tasks
