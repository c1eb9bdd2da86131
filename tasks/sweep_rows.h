// Rows of a sweep as text.
#pragma once

#include <string>
#include <vector>

#include "core/base/json_writer.h"
#include "core/run/sweep.h"

namespace foregather::tasks {

/// The header line of `sweep --csv`: a column for each axis, `status`, the figures under their
/// names in `simulate --json`, `error`.
std::string csv_header(const run::SweepInfo& info);
/// A point as such a line. Cells without a figure are empty.
std::string csv_line(const run::SweepPoint& point);

/// A point as one line of JSON: `point`, `settings` (an object of texts), `status`, the figures
/// under the names of the columns (null where there is none), `error`.
std::string json_line(const run::SweepInfo& info, const run::SweepPoint& point);

/// The same, as fields of an object that is being written.
void write_fields(JsonWriter& json, const run::SweepInfo& info, const run::SweepPoint& point);

/// What one GPU spends on one token of a step, in picoseconds. Absent: out of memory, or no tokens.
std::optional<std::int64_t> gpu_time_per_token(const run::PointFigures& figures);

/// That the first and all later steps need. Absent: the source says nothing of memory.
std::optional<Bytes> reserved(const run::PointFigures& figures);

}  // namespace foregather::tasks
