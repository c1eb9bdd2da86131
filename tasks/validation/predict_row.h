// The prediction of one published result.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "tasks/validation/measured.h"

namespace foregather::tasks {

/// Shares of the step, for explanations. They add up to 1 where nothing overlaps.
struct StepShares {
  double compute = 0, exposed_comm = 0, host = 0;
};

struct RowPrediction {
  std::string skipped;  ///< why there is no prediction; empty: there is one
  Ns step = 0;
  std::pair<Ns, Ns> step_range;  ///< tasks/interval.h
  std::optional<Bytes> peak;     ///< in the row's metric; absent where the row names none
  std::pair<Bytes, Bytes> peak_range;
  Bytes allocated = 0, reserved = 0, outside = 0, capacity = 0;
  bool fits = false;
  bool is_close_call = false;  ///< tasks/interval.h
  StepShares shares;
  std::vector<std::string> assumptions;

  bool is_predicted() const { return skipped.empty(); }
};

/// Writes the workload of a row as DIRECTORY/ID.toml and DIRECTORY/ID.json (characters of the id
/// that are not letters, digits, '-', '.' or '_' become '_', and a digest of the id follows) and
/// predicts its steady step.
///
/// What does not fit is predicted once more with a device large enough, so that a wrong `fits` does
/// not hide how far the figures are; above 1023 GiB the peak is only a floor. `reserved_gib` is the
/// peak of what the allocator reserved, `allocated_gib` and `unknown` that of allocated bytes;
/// `first` is the first step, everything else the steady one. `figures` are sections of a hardware
/// file that replace those of the row's machine (DIRECTORY/ID.hardware.toml).
RowPrediction predict_row(const MeasuredRow& row, const std::string& directory,
                          const std::string& figures = {});

}  // namespace foregather::tasks
