// One rank's recording, ordered: which op ran on which stream, who launched it, what it waited for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/rebuild/call_class.h"
#include "core/rebuild/window.h"
#include "core/run/enums.h"
#include "core/run/recording.h"

namespace foregather::rebuild {

/// A device activity of the window. Times are relative to the window's begin.
struct RecordedOp {
  run::ActivityRow activity;
  std::uint32_t stream = 0;         ///< row of Timeline::streams
  Ns start = 0, end = 0;            ///< start is not before the end of the op before on its stream
  Ns launched = 0;                  ///< RecordedCall::issued; 0 if that was before the window
  bool has_launch = false;          ///< else it is launched with the op before it on its stream
  std::uint32_t position = 0;       ///< in the order of launches
  std::uint32_t call = 0;           ///< row of Timeline::calls, if it has a launch
  std::vector<std::uint32_t> deps;  ///< earlier ops of other streams that end before it starts
  /// It starts that long behind its launch, and behind the last op that it waits for: the one that
  /// came last as recorded, the other one as is usual here.
  Ns launch_lead = 0, lead = 0;
  Ns unexplained = 0;  ///< the part of what was recorded that is no usual latency
  run::BoundReason reason = run::BoundReason::start;  ///< what it waited for last
  /// That op, if the reason is one; of host: the one that the host waited for last before.
  std::optional<std::uint32_t> bound_by;
  bool is_pinned = false;  ///< placed at its recorded time: nothing before it
};

/// A call that matters for device work: it launches, records, waits or synchronises. Of nested
/// calls, the outermost. By start.
struct RecordedCall {
  run::CallRow row;
  std::uint32_t thread = 0;  ///< row of Timeline::threads
  CallClass kind = CallClass::other;
  Ns start = 0, end = 0;  ///< not before the window's begin
  /// It hands its ops to the device: at its start, but later where the device did not begin for
  /// long while the call went on, and behind calls of other threads whose ops its stream ran first.
  Ns issued = 0;
  std::vector<std::uint32_t> ops;  ///< that it launched, each with those without launch behind it
  /// The op whose end the call waited for; absent: it did not wait.
  std::optional<std::uint32_t> awaited;
  bool awaits_device = false;  ///< … as the last of all that was launched before
};

struct RecordedStream {
  run::LaneRow lane;
  std::vector<std::uint32_t> ops;  ///< by start; none begins before the one before it ended
};

struct RecordedThread {
  run::LaneRow lane;
  std::vector<std::uint32_t> calls;  ///< by start
};

struct Timeline {
  std::vector<RecordedOp> ops;  ///< by start
  std::vector<RecordedStream> streams;
  std::vector<RecordedThread> threads;  ///< those that launch
  std::vector<RecordedCall> calls;
  /// Ops without a launch, and without an op that has one before them on their stream.
  std::vector<std::uint32_t> unlaunched;
  Ns length = 0;
  Ns clock_shift = 0;  ///< by which host times were moved back, so that launches come first
  /// Launches that are left out, since they were recorded so long after their op that they cannot
  /// be its own.
  std::int64_t late_launches = 0;
  std::int64_t inferred_deps = 0;  ///< deps that no record of the tool names
  std::int64_t recorded_deps = 0;
};

/// Joins activities to calls by correlation, puts ops that overlap on one lane onto streams of
/// their own, finds what ops of other streams each one waited for (recorded, or inferred from event
/// calls and from times), and what is left of each start. n log n.
Timeline timeline_of(const run::Recording& recording, const Window& window);

}  // namespace foregather::rebuild
