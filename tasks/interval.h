// How far a prediction may be off.
#pragma once

#include "tasks/schedule.h"
#include "tasks/summary.h"

namespace foregather::tasks {

/// Predicts the steady step twice more, with everything as fast and as slow as published runs have
/// been against the cost model (docs/cost-model.md, "Plausibility"); `summary` holds the
/// prediction. Reserved bytes: the tolerance within which the live bytes of the schedules agree
/// with PyTorch's own trackers (tests/models). Absent after an out-of-memory. Fills the interval of
/// the job and of each class.
///
/// Ranges seen, not a confidence level: a run may lie outside.
Status fill_intervals(const Schedule& schedule, Summary& summary);

}  // namespace foregather::tasks
