// The times of one step.
#pragma once

#include "core/base/units.h"
#include "core/compare/exposed.h"

namespace foregather::tasks {

/// Of one step of one rank class.
struct StepTimes {
  Ns step = 0;
  compare::BusyTimes busy;
  Ns host_bound = 0;  ///< CriticalPath::host
};

}  // namespace foregather::tasks
