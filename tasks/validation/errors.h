// How far predictions are from what was published.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tasks/validation/measured.h"
#include "tasks/validation/predict_row.h"

namespace foregather::tasks {

struct RowResult {
  MeasuredRow row;
  RowPrediction prediction;

  /// (predicted − published) / published; absent without one of the two.
  std::optional<double> time_error() const;
  std::optional<double> peak_error() const;
  /// Does the published value lie in the prediction's interval? Absent without one of the two.
  std::optional<bool> time_inside() const;
  std::optional<bool> peak_inside() const;
  /// Predicted to fit and published as out of memory, or the other way round.
  bool is_wrong_fit() const;
};

/// Of |error|. Absent where nothing was compared.
struct Spread {
  std::size_t n = 0;
  std::optional<double> median, p90, worst;
};

struct GroupFigures {
  std::size_t n = 0, predicted = 0;
  Spread time, peak;
};

/// Published values inside the interval of their prediction.
struct Coverage {
  std::size_t n = 0, inside = 0;
  std::optional<double> share() const {
    return n > 0 ? std::optional(static_cast<double>(inside) / static_cast<double>(n))
                 : std::nullopt;
  }
};
Coverage coverage_of(const std::vector<RowResult>& rows,
                     std::optional<bool> (RowResult::*inside)() const);

/// The least value that at least `share` of the weight does not exceed; the mean of that and the
/// next value where the share is met exactly. `values` are (value, weight > 0).
std::optional<double> weighted_quantile(std::vector<std::pair<double, double>> values,
                                        double share);

/// Figures of rows. With `groups_equally` each group weighs the same in medians and p90, divided
/// among those of its rows that are compared; else each row does.
GroupFigures figures_of(const std::vector<const RowResult*>& rows, bool groups_equally);

/// Rows by group, in order of the name.
std::map<std::string, std::vector<const RowResult*>> by_group(const std::vector<RowResult>& rows);

/// Rows of one tier.
std::vector<const RowResult*> of_tier(const std::vector<RowResult>& rows, const std::string& tier);

}  // namespace foregather::tasks
