// What ops usually take.
#pragma once

#include <vector>

#include "core/rebuild/meetings.h"

namespace foregather::rebuild {

/// By recording, by op of its timeline: what ops of its name with as many bytes (of a copy, or of a
/// collective's message) or threads (of a kernel) take, on all ranks and in all of the window. Of
/// work that is the mean, of collectives the median of their transfers; one whose bytes are not
/// known takes what it took. n log n.
std::vector<std::vector<Ns>> usual_times(const RankTimelines& ranks, const Meetings& meetings);

/// The mean of work, the median of collectives (of an even number, between the middle two); of at
/// least one.
Ns usual_time(std::vector<Ns>& durations, bool is_collective);

}  // namespace foregather::rebuild
