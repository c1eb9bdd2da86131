// Throughput over numbers of GPUs: published and predicted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tasks/validation/errors.h"

namespace foregather::tasks {

/// Results of one group that are equal but for the number of GPUs and nodes and the number of
/// micro-batches a step.
struct ScalingFamily {
  std::vector<const RowResult*> rows;  ///< at least two numbers of GPUs, in their order
  /// Least squares of ln(tokens/s/GPU) against ln(GPUs).
  double published_slope = 0, predicted_slope = 0;

  std::int64_t least_gpus() const { return *rows.front()->row.gpus; }
  std::int64_t most_gpus() const { return *rows.back()->row.gpus; }
  /// tokens/s/GPU with the most GPUs over that with the least, on the fitted line.
  double published_ratio() const;
  double predicted_ratio() const;
  /// predicted_ratio / published_ratio − 1. Slopes are near zero (perfect scaling is zero), so that
  /// a share of the slope means little: this is what a wrong slope does over the family's range.
  double error() const { return predicted_ratio() / published_ratio() - 1; }
  bool is_within() const;  ///< |error| is at most 10 %
  /// The slopes themselves differ by at most 10 % of the published one.
  bool is_slope_within() const;
};

struct Scaling {
  std::vector<ScalingFamily> families;  ///< in order of the table
  /// One slope for all families, each with an intercept of its own.
  std::optional<double> published_slope, predicted_slope;

  std::optional<bool> are_within() const;  ///< all families; absent without one
};

/// Families among the rows that have a published and a predicted step time. The fabric of a row on
/// one node does not count: it belongs to every family of more nodes that it fits.
Scaling find_scaling(const std::vector<RowResult>& rows);

}  // namespace foregather::tasks
