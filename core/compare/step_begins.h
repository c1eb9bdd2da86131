// When the steps begin that are compared.
#pragma once

#include <utility>

#include "core/run/run.h"

namespace foregather::compare {

/// Of a step of each run: where the device ended the step before, as far as both runs know that;
/// else, of both, where the step's own work begins. A simulated or executed step knows it, a
/// recorded one if the recording has the step before, too, the replay of a recorded step never.
/// Linear in the steps' ops.
std::pair<Ns, Ns> step_begins(run::RunView first, run::StepRow first_step, run::RunView second,
                              run::StepRow second_step);

}  // namespace foregather::compare
