// The use case of `./dev validate`: predictions against published figures.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "tasks/validation/errors.h"
#include "tasks/validation/fit.h"
#include "tasks/validation/gpu_steps.h"
#include "tasks/validation/nccl_tables.h"

namespace foregather::tasks {

struct ValidateRequest {
  std::string measured;     ///< a table of measured runs; empty: none
  std::string nccl_tests;   ///< a folder of nccl-tests tables; empty: none
  std::string predictions;  ///< where to write predictions; nccl_predictions.csv goes beside it
  std::string report;       ///< where to write the report for people (docs/validation.md)
  /// The table that gpu-check wrote of schedules run on a GPU (measured.md), for the report.
  std::string gpu_check;
  std::string gpu_steps;  ///< a table of steps measured on a GPU; empty: none
  std::string workloads;  ///< a folder that keeps the workload of each row; empty: temporary
};

struct Validation {
  std::vector<RowResult> rows;
  std::vector<NcclRow> collectives;
  std::string gpu_check;  ///< that table's text; empty: there is none
  std::vector<GpuStep> gpu_steps;

  /// Reasons why rows were not predicted, with the number of rows.
  std::map<std::string, std::size_t> skipped() const;
  std::size_t wrong_fits() const;
};

/// Fits what of the cost model is fitted (fit.h, nccl_fit.h) to the table of measured runs, to
/// tables of collectives or to both, and says how well. Errors: as of these; neither is given.
Result<std::string> fit_to(const ValidateRequest& request,
                           const std::function<void(const FitProgress&)>& progress);

/// Predicts every row of the tables and writes what was asked for. Rows that cannot be expressed
/// are part of the result. Errors: unreadable or bad tables, unwritable files.
Result<Validation> validate(const ValidateRequest& request);

}  // namespace foregather::tasks
