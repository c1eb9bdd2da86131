// What-ifs about the all-gathers of recorded runs: ops with fixed times, ordered by streams and
// deps, without the storages by which other schedules tell what uses what.
#pragma once

#include <cstddef>
#include <string_view>

#include "sim/passes/rewriter.h"

namespace foregather::sim {

/// Was the schedule rebuilt from a recording? Then no program has storages, and all its times are
/// fixed.
bool is_recorded(const Graph& graph);

struct ChangedGathers {
  std::size_t gathers = 0;
  Bytes bytes = 0;  ///< that are no longer gathered
};

/// Drops the all-gathers of scope `b` that follow one of scope `a` in the same phase, of the same
/// size where both are known, with the copies of scope `b` that waited for them. What waited for
/// the second gather waits for the first. Not flushed.
ChangedGathers drop_recorded_gathers(Rewriter& rewriter, std::string_view a, std::string_view b);

/// All-gathers in a dtype of four bytes that one cast to a shorter dtype alone waited for take that
/// cast in: half the transfer, and the cast of a shard, as long as the recorded one over the number
/// of ranks. What followed the cast waits for the gather. Not flushed.
ChangedGathers narrow_recorded_gathers(Rewriter& rewriter);

}  // namespace foregather::sim
