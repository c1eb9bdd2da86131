// The use case of `foregather sweep`: SOURCE and a grid in, one row a point out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/run/sweep.h"
#include "runtime/job.h"
#include "sim/sweep/grid.h"
#include "tasks/sweep_grid.h"

namespace foregather::tasks {

struct SweepRequest : GridRequest {
  // What changes the rows, besides the grid.
  sim::Shard shard;
  // What does not.
  std::uint32_t jobs = 0;  ///< threads; 0: as many as there are processors, in a job one
  std::string database;    ///< where rows are kept; empty: nowhere
  std::string picture;     ///< that the caller writes: no input, and not the database
  bool resume = false;     ///< go on with the database
};

/// How far a sweep has come.
struct SweepProgress {
  std::int64_t done = 0;    ///< points that were predicted now
  std::int64_t failed = 0;  ///< of these
  double share = 0;         ///< of the grid or shard that is behind, by number
};

struct SweepCounts {
  std::int64_t points = 0;    ///< of the grid or shard
  std::int64_t excluded = 0;  ///< that do not meet the conditions
  std::int64_t present = 0;   ///< that the database had
  std::int64_t predicted = 0;
  std::int64_t fits = 0, out_of_memory = 0, failed = 0;  ///< of all rows
  std::string first_error;
  std::vector<std::string> warnings;  ///< of points only those that were predicted now
};

/// A sweep that was asked for and can be: its axes are read, its source is there.
class Sweep {
 public:
  /// Errors: bad usage, at its place; unknown keys; values that a key does not take; a source that
  /// cannot be read; an output that is an input.
  static Result<Sweep> open(const SweepRequest& request);

  const run::SweepInfo& info() const { return grid_.info; }
  const SweepRequest& request() const { return request_; }

  /// Predicts the points that meet the conditions and are not in the database, and hands all rows
  /// to `sink` in order of their number. Rows do not depend on the number of threads. Memory: a few
  /// thousand points at one time. `progress` is called now and then, by one thread at a time.
  /// Errors: those of the database and the sink; a condition that cannot be decided; no point
  /// meets the conditions; no point could be predicted (of a shard, both are warnings). After the
  /// last three a new database is not left behind. With a job, whose rank 0 this is, the other
  /// ranks predict as well; a lost one's points are predicted again.
  Result<SweepCounts> run(run::SweepSink& sink,
                          const std::function<void(const SweepProgress&)>& progress,
                          const runtime::ProcessJob* job = nullptr) const;

  /// The other ranks: predicts what rank 0 asks for, until it has all points.
  Status work_for(const runtime::ProcessJob& job) const;

 private:
  Sweep(SweepRequest request, SweepGrid grid)
      : request_(std::move(request)), grid_(std::move(grid)) {}

  SweepRequest request_;
  SweepGrid grid_;
};

}  // namespace foregather::tasks
