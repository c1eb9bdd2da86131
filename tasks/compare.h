// The use case of `foregather compare`: two runs, predicted against measured or one against
// another.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/compare/by_kernel.h"
#include "core/compare/critical_path.h"
#include "core/compare/exposed.h"
#include "core/compare/matching.h"
#include "core/compare/memory_causes.h"

namespace foregather::tasks {

struct CompareRequest {
  std::string first, second;         ///< RUN.db, RUN.db:NAME, or what load_any_run() reads
  std::optional<std::int64_t> step;  ///< of measured runs
  std::optional<std::array<std::uint32_t, 2>> ranks;
  std::string database;  ///< where both runs and their comparison go; empty: nowhere
};

/// An entry of a critical path.
struct PathEntry {
  std::string op;  ///< its key
  OpKind kind = OpKind::other;
  run::BoundReason reason = run::BoundReason::start;
  Ns time = 0, gap = 0;
};

/// One side, of the rank that is compared.
struct ComparedSide {
  std::string location, run;  ///< "RUN.db:NAME", name of the run
  bool is_measured = false;
  std::uint32_t rank = 0;
  std::uint32_t step = 0;   ///< its number
  bool is_cut = false;      ///< it ran out of memory in the step: no time is that of a step
  bool knows_waits = true;  ///< false: its collectives' times are with what they waited for ranks
  Ns step_time = 0;         ///< 0: it has no ops
  compare::BusyTimes busy;
  compare::CriticalPath path;
  std::map<std::string_view, Ns> path_kinds;  ///< times of ops
  /// Gaps; "host_beside_work": the part of the host's in which the device was busy.
  std::map<std::string_view, Ns> path_reasons;
  std::vector<PathEntry> path_longest;
  Bytes peak_allocated = 0, peak_reserved = 0;  ///< 0: not known
  compare::MemoryAtPeak memory;
};

/// Of groups that met as ops, or by scope and kind (by scope: also by scope and phase).
struct Residual {
  std::int64_t n = 0;        ///< groups
  double mape = 0;           ///< mean of |first − second| / second
  double bias = 0;           ///< mean of (first − second) / second
  Ns first = 0, second = 0;  ///< times
  double error() const;      ///< of the sums: (first − second) / second
};

struct Comparison {
  ComparedSide first, second;
  compare::Matching matching;
  std::vector<compare::KernelChange> kernels;  ///< if both are measured
  std::map<std::string, Residual> by_kind, by_scope;
  std::vector<std::string> warnings;

  bool has_ops() const { return first.busy.ops > 0 && second.busy.ops > 0; }
  bool has_times() const { return has_ops() && !first.is_cut && !second.is_cut; }
  std::optional<double> step_time_error() const;    ///< (first − second) / second
  std::optional<double> peak_memory_error() const;  ///< of reserved, else of allocated bytes
};

/// Compares the ranks of the request; without them the first rank of the second run with the class
/// of the first run that has that rank, or with its first class. Writes both runs and their
/// comparison to the database. Errors: those of reading and writing; a run without steps; a rank or
/// a step that is not there; the database is an input.
Result<Comparison> compare_runs(const CompareRequest& request);

/// Groups that met and whose times differ, largest difference first.
std::vector<const compare::MatchedGroup*> most_changed(const Comparison& comparison);

/// Residuals whose times differ, largest difference first, then by name.
std::vector<std::pair<std::string, Residual>> most_changed(
    const std::map<std::string, Residual>& residuals);

/// The JSON object of `compare --json`, with a line end. See docs/formats.md.
std::string to_json(const Comparison& comparison);

}  // namespace foregather::tasks
