// One rank's timeline as a program of the schedule graph.
#pragma once

#include <span>

#include "core/ir/builder.h"
#include "core/rebuild/timeline.h"

namespace foregather::rebuild {

/// Appends the program of one rank: ops with fixed times, host threads with their calls. `ranks`
/// are those of the job, for groups that the recording does not describe.
ProgramId add_program(const run::Recording& recording, const Timeline& timeline, std::uint32_t rank,
                      std::uint32_t world_size, GraphBuilder& builder);

}  // namespace foregather::rebuild
