// Predictions of a run database as sources of another one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "tasks/simulate.h"

namespace foregather::tasks {

/// Asks for what a run's options say, lines "--step N", "--set X" and "--what-if Y": the sets and
/// passes before the request's own, the step where it names none.
void prepend_options(std::string_view options, SimulateRequest& request);

/// Where a run was predicted from a workload: asks for that workload, as the run has it, with the
/// run's --set and --what-if before the request's own. Its files must be those that it was
/// predicted with, but for those that the request's own --set names. False: it was not, and nothing
/// changes.
bool ask_as_predicted(const run::RunInfo& about, SimulateRequest& request);

/// Where the one source is a run that was predicted from a workload: puts that workload, as it is
/// stored, in its place, and the stored --set and --what-if before the request's own. Returns the
/// database, if so. Errors: those of store::read_about(), several sources, --step.
Result<std::vector<std::string>> open_stored_prediction(SimulateRequest& request);

}  // namespace foregather::tasks
