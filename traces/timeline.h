// Timelines of pipeline-parallel jobs: Chrome JSON whose events have a step, a micro-batch and a
// lane of their rank, but no device and no launches.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/run/recording.h"
#include "traces/text_source.h"

namespace foregather::traces {

struct TimelineTrace {
  run::Recording recording;
  Bytes text_bytes = 0;  ///< unpacked
};

/// Is this the beginning of one? Its first whole events decide: one of phase X has `args.step`,
/// none is of a category that read_kineto() keeps.
bool is_timeline(std::string_view head);

/// Each event of phase X becomes an activity (a kernel) in the lane of its process and thread, with
/// its row of TimelineColumns; metadata name the lanes, those without events included. Lanes may
/// overlap. Damaged events are dropped and counted as read_kineto() does. Errors: see read_json().
Result<TimelineTrace> read_timeline(TextSource& source, const std::string& name);

}  // namespace foregather::traces
