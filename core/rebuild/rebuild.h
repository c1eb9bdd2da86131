// A recording becomes a schedule.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/rebuild/clocks.h"
#include "core/run/recording.h"

namespace foregather::rebuild {

/// What was recorded of one rank, and how far the schedule explains it.
struct RebuiltRank {
  std::string source;
  std::uint32_t rank = 0;
  Ns measured = 0;     ///< first start to last end of its device work
  Ns unexplained = 0;  ///< time in which an op waited for nothing that the recording shows
  std::int64_t ops = 0, pinned = 0, streams = 0;
  std::int64_t recorded_deps = 0, inferred_deps = 0;
  Ns clock_shift = 0;  ///< by which the host's clock was ahead of the device's
  /// Against the first recording's; absent: there is none, or they could not be compared.
  std::optional<Clock> clock;
  std::int64_t matched = 0;  ///< collectives in which it meets other recorded ranks
};

/// By name of a group: its ranks as recorded. The graph's group has those of which there is a
/// recording.
using GroupSizes = std::map<std::string, std::uint32_t>;

struct Rebuilt {
  Graph graph;
  std::vector<RebuiltRank> ranks;  ///< as Graph::classes
  GroupSizes group_sizes;
  bool is_one_recording = false;  ///< of all ranks: the step of each begins with the first of all
  std::vector<std::string> warnings;
};

struct RebuildOptions {
  std::optional<std::int64_t> step;  ///< "ProfilerStep#N"; absent: all of the recording
};

/// Only durations are taken from the recordings: of device activities, of what the host does
/// between and in its calls, and of what is left of a start behind the launch and behind the last
/// op that the op waits for (Cost::launch_lead, Cost::lead): the recorded time behind the one that
/// held the op back, and what is usual in the recording behind the other. So an unchanged replay
/// gives the recorded times, and a changed one moves what depends on the change:
///   an op waits for its launch, for its stream, and for ops of other streams (see find_waits());
///   a thread does one call after another, waits for the device where the recorded call did, and
///   for another thread that launched while it did not (the backward's thread and the main one);
///   ranks wait for each other in the collectives that they share (see put_together()): of those,
///   the transfer is taken, from the last arrival on. Ranks begin when they did on aligned clocks.
/// One recording is one rank class with sections `first` and `body`; ranks that the recordings do
/// not name are numbered by their order. A timeline of a pipeline has all ranks of its job, see
/// rebuild_pipeline(). Errors: no device work in the window; two recordings of one rank; a timeline
/// beside other recordings.
Result<Rebuilt> rebuild(std::span<const run::Recording* const> recordings,
                        const RebuildOptions& options);

}  // namespace foregather::rebuild
