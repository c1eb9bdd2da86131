// Where GLPK was not there when this was built.
#include "sim/sweep/choice_program.h"

namespace foregather::sim {

std::optional<std::string> solver_name() { return std::nullopt; }

Result<std::optional<ChoiceBound>> least_choice(const ChoiceRows& /*rows*/,
                                                const std::vector<Choice>& /*without*/) {
  return fail("this program was built without GLPK: {}", kSolverFix);
}

}  // namespace foregather::sim
