// Timelines of pipeline-parallel jobs as schedules: all ranks of a job in one recording.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/result.h"
#include "core/rebuild/rebuild.h"

namespace foregather::rebuild {

/// Does the recording have steps, and lanes that say whose they are ("PP rank 3, TP rank 0,
/// dp-comm" of one process a data-parallel rank)?
bool is_pipeline(const run::Recording& recording);

/// One step of a timeline, all of its ranks on one clock; without a number the one of median
/// length. Ranks are numbered as Megatron does: by stage, then data-parallel, then tensor-parallel
/// rank. A rank has one stream a lane, and one a kind of transfer between stages. An op waits for
///   the one before it on its stream;
///   a compute op for the receive of its micro-batch, a send for its compute, a receive for the
///   compute before the one it is for, all of one direction ("forward-recv", "forward-compute", …);
///   a receive for the compute op, of either direction, that ended last before it;
///   the op that ended last on each other lane of its rank (transfers between stages apart);
/// and ranks wait for each other in each send and its receive, and in collectives: those of one
/// name that begin at one time (within a microsecond) in every step of the recording. Durations are
/// recorded; so is what is left of a start behind all that (Cost::lead), of a collective behind its
/// last rank. Cost::usual_time is over the recording: the mean of the ops of one name that end in
/// "-compute" or are "optimizer", the median of others. n log n. Errors: no such step, no
/// activities.
Result<Rebuilt> rebuild_pipeline(const run::Recording& recording, std::optional<std::int64_t> step);

}  // namespace foregather::rebuild
