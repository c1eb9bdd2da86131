// Published effects of schedules, reproduced.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"

namespace foregather::tasks {

/// One published figure and ours.
struct Reproduced {
  std::string source;  ///< "lightning-thunder PR 602"
  std::string what;    ///< "all-gathers, before to after"
  std::string unit;
  std::string published;  ///< as the source says it; empty: it gives no number
  std::optional<double> published_value;
  double predicted = 0;
  std::pair<double, double> range;  ///< within which the prediction must lie
  std::string command;              ///< that prints what the prediction is made of
  std::string assumed;              ///< what the source does not say

  bool holds() const { return predicted >= range.first && predicted <= range.second; }
  /// In units of the figure; absent where nothing is published.
  std::optional<double> difference() const;
};

/// Simulates every case from the samples in `folder` (traces/samples of the source tree), in order
/// of the table. Errors: a sample that is missing or cannot be simulated.
Result<std::vector<Reproduced>> reproduce(const std::string& folder);

std::string reproduced_text(const std::vector<Reproduced>& rows);
std::string reproduced_markdown(const std::vector<Reproduced>& rows);
std::string to_json(const std::vector<Reproduced>& rows);

}  // namespace foregather::tasks
