// What a pipeline timeline holds, as its tool recorded it: nothing is inferred.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "core/run/recording.h"

namespace foregather::compare {

struct TimelineUse {
  std::int64_t count = 0;
  Ns time = 0;  ///< sum
};

struct TimelineStep {
  std::int64_t activities = 0;
  Ns first_start = 0, last_end = 0;
};

struct TimelineFigures {
  std::int64_t processes = 0, lanes = 0;  ///< that have activities
  /// All lanes, by what follows the last comma of their label.
  std::map<std::string_view, std::int64_t> lane_kinds;
  std::map<std::string_view, TimelineUse> names;  ///< as lane_kinds: views into the recording
  std::map<std::int64_t, TimelineStep> steps;
  Ns first_start = 0, last_end = 0;
  /// Neighbours in a lane, by (start, end), of which the later begins more than the nanosecond that
  /// times are rounded to before the former ends.
  std::int64_t overlapping_pairs = 0;
};

/// n log n in the activities. Sums saturate.
TimelineFigures timeline_figures(const run::Recording& recording);

}  // namespace foregather::compare
