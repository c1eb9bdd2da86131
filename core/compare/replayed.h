// Predictions that replay a recording: which of its steps they stand for.
#pragma once

#include <cstdint>
#include <optional>

#include "core/run/replay.h"
#include "core/run/run.h"

namespace foregather::compare {

/// The number of the step that this prediction replays, if it replays one of a recording.
std::optional<std::int64_t> replayed_step(run::RunView run);

/// Does this prediction replay all steps of a recording as one?
bool replays_all_steps(run::RunView run);

/// … and are these the several steps that it has to be compared with as one?
bool meets_all_steps(run::RunView prediction, run::RunView measured);

/// The recording as a prediction replays it without a choice of step: the steps of each class are
/// one, numbered as the first, from the first begin to the last end. Ordinals count on over them, a
/// peak is the largest one, an allocation that lives in several steps is one. n log n.
void join_steps(run::Run& run);

}  // namespace foregather::compare
