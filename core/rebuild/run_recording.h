// A run becomes a recording again, so that it replays as the one that it was imported from.
#pragma once

#include <optional>

#include "core/run/recording.h"
#include "core/run/run.h"

namespace foregather::rebuild {

/// The ops of one rank class (of one step, else of all) with their calls, stream waits and
/// collectives; kinds, phases and scopes are those of the rows. Times are the run's.
///
/// Where a run has no calls because it was predicted, each op is launched by a call of its own when
/// it was issued, and waits for what bound it. Linear, but for sorting those.
run::Recording recording_of(run::RunView run, run::ClassRow rank_class,
                            std::optional<run::StepRow> step);

}  // namespace foregather::rebuild
