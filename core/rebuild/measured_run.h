// A recording as a measured run: the same rows as a predicted one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/rebuild/clocks.h"
#include "core/run/recording.h"
#include "core/run/run.h"

namespace foregather::rebuild {

/// See put_together().
struct RankClock {
  std::uint32_t rank = 0;
  std::optional<Clock> clock;
};

struct MeasuredRun {
  run::Run run;                   ///< RunInfo: kind, world size; the rest is the caller's
  std::vector<RankClock> clocks;  ///< by recording
  std::vector<std::string> warnings;
};

/// One recording a rank class. Its steps are those that it names ("ProfilerStep#N", each with the
/// device work that it launched), or `step` alone, or one of all its device work. Times are those
/// of the first recording's clock, aligned by the collectives that they share, else by the epochs
/// of their time 0, else each its own; time 0 is the first start of all. The transfer of a
/// collective that others share begins when the last rank has arrived. Every op has what held it
/// back (see find_waits()) and, as `source`, the name of its kernel; memory is what the tool
/// recorded of the device's allocator. A stream is called "DEVICE/STREAM", that of a timeline by
/// the labels of its lane. A raw recording without device work (`record --host-only`) has one step
/// without ops, and its NVTX ranges are its calls. Errors: as of rebuild().
Result<MeasuredRun> measured_run(std::span<const run::Recording* const> recordings,
                                 std::optional<std::int64_t> step);

}  // namespace foregather::rebuild
