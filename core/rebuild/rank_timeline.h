// One rank's recording within a window, taken apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/rebuild/labels.h"
#include "core/rebuild/timeline.h"
#include "core/rebuild/window.h"

namespace foregather::rebuild {

/// The recording must outlive it.
struct RankTimeline {
  RankTimeline(const run::Recording& recording_of, std::uint32_t rank_of, const Window& window)
      : recording(&recording_of),
        rank(rank_of),
        begin(window.begin),
        timeline(timeline_of(recording_of, window)),
        labels(recording_of, timeline) {}

  const run::Recording* recording;
  std::uint32_t rank;
  Ns begin;  ///< time 0 of the timeline, on the recording's clock
  Timeline timeline;
  Labels labels;
};

/// What people must know of a rank that drives several devices: they count as one. Nothing of any
/// other.
std::optional<std::string> warning_of_devices(const RankTimeline& rank);

/// One window of a job, by recording; null: the recording does not have it.
using RankTimelines = std::vector<const RankTimeline*>;

}  // namespace foregather::rebuild
