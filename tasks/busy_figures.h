// Times of a run, per class.
#pragma once

#include "core/run/run.h"
#include "tasks/summary.h"

namespace foregather::tasks {

/// Fills times of all classes, which one is slowest, and its critical path. Needs finished steps.
void fill_times(run::RunView run, Summary& summary);

}  // namespace foregather::tasks
