// What sweeps and searches go over: a source, what varies about it, and under what conditions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/run/sweep.h"
#include "tasks/candidates.h"
#include "tasks/sweep_axes.h"

namespace foregather::tasks {

struct GridRequest {
  std::string source;
  std::vector<std::string> vary;     ///< "KEY=V1,V2,…": a dotted key, `hw`, or `what-if.PASS`
  std::vector<std::string> sets;     ///< KEY=VALUE, before what varies
  std::vector<std::string> what_if;  ///< passes, before those that vary
  std::vector<std::string> where;    ///< conditions that all must hold
};

/// A request that can be: its axes and conditions are read, its source is there.
struct SweepGrid {
  /// Errors: bad usage, at its place; unknown keys; values that a key does not take; a source that
  /// cannot be read.
  static Result<SweepGrid> read(const GridRequest& request);

  const sim::Grid& points() const { return axes.grid(); }
  /// What a point with these values changes about the source.
  Candidate candidate(const std::vector<std::string>& values) const;

  GridRequest request;
  run::SweepInfo info;
  SweepAxes axes;
  SweepConditions conditions;
  std::optional<std::string> text;  ///< of a workload
  std::vector<std::string> files;   ///< that its points read, SOURCE among them
};

/// A point of the grid: figures, or why there are none.
run::SweepPoint predict_point(const SweepGrid& grid, std::int64_t index, Candidates& candidates,
                              CandidateGroup& group, Candidates::Worker& worker);
/// The same for any values of its axes; `index` only goes into the point.
run::SweepPoint predict_values(const SweepGrid& grid, std::int64_t index,
                               std::vector<std::string> values, Candidates& candidates,
                               CandidateGroup& group, Candidates::Worker& worker);

}  // namespace foregather::tasks
