// The best set of yes-or-no choices: by local search, and how far it is from the optimum.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "sim/sweep/choice_rows.h"

namespace foregather::sim {

/// Judges a set, dear. Absent: the set is impossible.
using JudgeChoice = std::function<Result<std::optional<Judgement>>(const Choice&)>;

struct ChoiceLimits {
  std::int64_t judged = 0;        ///< sets at most, on the way
  std::int64_t proof = 0;         ///< and so many more that the solver names
  std::size_t enumerated = 0;     ///< all sets of at most so many choices are gone through to prove
  std::function<bool()> is_over;  ///< asked before each set; empty: never
};

struct JudgedChoice {
  Choice choice;
  Judgement judgement;
};

struct ChoiceOutcome {
  std::optional<JudgedChoice> best;  ///< of those that fit and are better than what was to beat
  std::int64_t judged = 0;           ///< of those that can be
  bool is_proved = false;            ///< no set that fits is better; or none does
  std::optional<std::int64_t> cost_floor;  ///< no set that fits costs less; absent: not known
  std::string no_floor;                    ///< why not
};

/// From the start, and from the first 0, 1, 2, … choices: flips one choice or swaps two, as long as
/// that is better. What the rows rule out is not judged. Few choices: then all sets that are left
/// are judged in the order of their floors, until the least floor is no better than the best: that
/// proves it. More: the solver names the set with the least floor; it is judged and forbidden, and
/// so on. `to_beat` is what is known without: it fits.
///
/// Errors: those of the judge.
Result<ChoiceOutcome> search_choices(const ChoiceRows& rows, const JudgeChoice& judge,
                                     const std::optional<Choice>& start,
                                     const std::optional<Judgement>& to_beat,
                                     const ChoiceLimits& limits);

}  // namespace foregather::sim
