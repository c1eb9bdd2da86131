// Predictions as tables and JSON, for programs.
#pragma once

#include <string>
#include <vector>

#include "tasks/validation/validate.h"

namespace foregather::tasks {

/// id, step_time_s, peak_mem_gib, fits, skip_reason; one line a row, in the table's order. Cells
/// are empty where there is no figure.
std::string predictions_csv(const std::vector<RowResult>& rows);

/// table, collective, nranks, nnodes, gpu, interconnect, size_bytes, time_us.
std::string nccl_predictions_csv(const std::vector<NcclRow>& rows);

/// The object of `validate --json`, with a line end; docs/formats.md.
std::string to_json(const Validation& validation);

}  // namespace foregather::tasks
