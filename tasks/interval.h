// How far a prediction may be off.
#pragma once

#include <utility>
#include <vector>

#include "tasks/schedule.h"
#include "tasks/summary.h"

namespace foregather::tasks {

/// Low and high of the steady step of each class: it is predicted twice more, with the times of
/// each mechanism (compute, collectives inside a node, of several nodes, host) at the least and the
/// most that Hardware::interval says, or, of compute of a calibrated machine, the residuals of its
/// kind. Recorded times stay as they are. `step` is each class's
/// prediction; where a variant runs out of memory it says nothing.
Result<std::vector<std::pair<Ns, Ns>>> step_ranges(const Schedule& schedule,
                                                   const std::vector<Ns>& step);

/// Nine of ten published values lie in such an interval (docs/validation.md counts them).
std::pair<Bytes, Bytes> peak_range(Bytes peak, const sim::Hardware& hardware);

/// Is the memory that a device has beside `outside` within peak_range() of what is reserved? Then
/// the answer to "does it fit?" may as well be the other one.
bool is_close_call(Bytes reserved, Bytes outside, Bytes capacity, const sim::Hardware& hardware);

/// Fills the interval of the job and of each class; `summary` holds the prediction. Absent after an
/// out-of-memory.
Status fill_intervals(const Schedule& schedule, Summary& summary);

}  // namespace foregather::tasks
