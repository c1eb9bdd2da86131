// The use case of `foregather compare`: two runs, predicted against measured or one against
// another.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/compare/by_kernel.h"
#include "core/compare/critical_path.h"
#include "core/compare/exposed.h"
#include "core/compare/matching.h"

namespace foregather::tasks {

/// One side, of the rank that is compared.
struct ComparedSide {
  std::string location, run;  ///< "RUN.db:NAME", name of the run
  bool is_measured = false;
  std::uint32_t rank = 0;
  std::uint32_t step = 0;  ///< its number
  Ns step_time = 0;
  compare::BusyTimes busy;
  compare::CriticalPath path;
  Bytes peak_allocated = 0, peak_reserved = 0;  ///< 0: not known
};

/// Ops of one kind that met as ops, or by scope and kind.
struct KindResidual {
  std::int64_t n = 0;        ///< groups
  double mape = 0;           ///< mean of |first − second| / second
  double bias = 0;           ///< mean of (first − second) / second
  Ns first = 0, second = 0;  ///< times
};

struct Comparison {
  ComparedSide first, second;
  compare::Matching matching;
  std::vector<compare::KernelChange> kernels;  ///< if both are measured
  std::map<std::string_view, KindResidual> by_kind;
  std::vector<std::string> warnings;

  double step_time_error() const;                   ///< (first − second) / second
  std::optional<double> peak_memory_error() const;  ///< of reserved, else of allocated bytes
};

/// Compares the first rank of the second run with the class of the first run that has that rank, or
/// with its only class. `step` chooses a step of measured runs. Errors: those of reading; a run
/// without steps; a step that is not there.
Result<Comparison> compare_runs(const std::string& first, const std::string& second,
                                std::optional<std::int64_t> step);

/// Groups whose times differ, largest difference first.
std::vector<const compare::MatchedGroup*> most_changed(const Comparison& comparison,
                                                       std::size_t most);

/// The JSON object of `compare --json`, with a line end. See docs/formats.md.
std::string to_json(const Comparison& comparison);

}  // namespace foregather::tasks
