// Whatever has steps, as a run.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/run/run.h"

namespace foregather::tasks {

struct AnyRun {
  run::Run run;
  std::vector<std::string> inputs;    ///< the files that were read
  std::vector<std::string> warnings;  ///< what to know before believing it
};

/// A run of a database (RUN.db, RUN.db:NAME) as it is; what import reads as a recorded run; a
/// memory snapshot; the prediction of any other SOURCE of simulate. All steps: who reads the run
/// chooses. Errors: those of reading.
Result<AnyRun> load_any_run(const std::string& source);

/// What load_any_run() loads of these sources: each run of a database of several, else the source
/// itself. Errors: those of reading a database.
Result<std::vector<std::string>> runs_in(const std::vector<std::string>& sources);

}  // namespace foregather::tasks
