// The set of choices with the least bound, by integer programming (GLPK, where it was there when
// this was built).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "sim/sweep/choice_rows.h"

namespace foregather::sim {

/// The solver and its version; absent: built without one.
std::optional<std::string> solver_name();

/// How to get what is missing.
inline constexpr const char* kSolverFix = "apt-get install libglpk-dev, and build again";

struct ChoiceBound {
  /// No set costs less by the rows: less than the true least, by a millionth at most.
  std::int64_t floor = 0;
  std::optional<Choice> choice;  ///< that reaches it; absent: the solver stopped at its limit
};

/// The least cost by the rows over all sets within the limit but those of `without`; absent: there
/// is none. Looks at 20,000 nodes at most. The same answer each time.
///
/// Errors: no solver, or it failed.
Result<std::optional<ChoiceBound>> least_choice(const ChoiceRows& rows,
                                                const std::vector<Choice>& without);

}  // namespace foregather::sim
