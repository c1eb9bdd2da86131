// One rank's timeline as a program of the schedule graph.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/builder.h"
#include "core/rebuild/meetings.h"
#include "core/rebuild/rank_timeline.h"

namespace foregather::rebuild {

/// What the rank's program has from the other ranks.
struct RankSurroundings {
  std::uint32_t world_size = 1;  ///< for groups that the recording does not describe
  const std::vector<std::optional<Meeting>>& meetings;  ///< by op of the timeline
  const std::vector<CommunicatorId>& communicators;     ///< by chain of the meetings
  const std::vector<Ns>& usual;                         ///< by op of the timeline: usual_times()
  std::map<std::string, std::uint32_t>& group_sizes;    ///< Rebuilt::group_sizes, to be added to
};

/// Appends the program of one rank: ops with fixed times, host threads with their calls.
ProgramId add_program(const RankTimeline& rank, const RankSurroundings& around,
                      GraphBuilder& builder);

}  // namespace foregather::rebuild
