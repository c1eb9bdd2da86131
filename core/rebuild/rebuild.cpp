#include "core/rebuild/rebuild.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/ir/builder.h"
#include "core/rebuild/drift.h"
#include "core/rebuild/job.h"
#include "core/rebuild/meetings.h"
#include "core/rebuild/pipeline.h"
#include "core/rebuild/rank_program.h"
#include "core/rebuild/rank_timeline.h"
#include "core/rebuild/stretches.h"
#include "core/rebuild/usual_times.h"
#include "core/rebuild/window.h"

namespace foregather::rebuild {
namespace {

// One for each chain of collectives in which recorded ranks meet.
std::vector<CommunicatorId> add_communicators(const RankTimelines& ranks,
                                              const MatchedCollectives& matched, GroupSizes& sizes,
                                              GraphBuilder& builder) {
  std::vector<CommunicatorId> communicators;
  std::map<std::string, int> streams;
  for (const CollectiveChain& chain : matched.chains) {
    std::vector<std::uint32_t> members;
    for (const std::uint32_t recording : chain.recordings)
      members.push_back(ranks[recording]->rank);
    std::sort(members.begin(), members.end());
    const int copy = streams[chain.group]++;
    const std::string name =
        copy == 0 ? chain.group : fmt::format("{} stream {}", chain.group, copy);
    const std::string group = fmt::format("{}, {} ranks", name, chain.size);
    communicators.push_back(builder.communicator(name, builder.group(group, members, 1)));
    sizes[group] = chain.size;
  }
  return communicators;
}

RebuiltRank figures(const RankTimeline& rank) {
  const Timeline& timeline = rank.timeline;
  RebuiltRank figures;
  figures.source = rank.recording->source;
  figures.rank = rank.rank;
  figures.measured = timeline.length;
  figures.ops = static_cast<std::int64_t>(timeline.ops.size());
  figures.streams = static_cast<std::int64_t>(timeline.streams.size());
  std::vector<Stretch> unexplained;
  for (const RecordedOp& op : timeline.ops) {
    unexplained.push_back({op.start - op.unexplained, op.start});
    figures.pinned += op.is_pinned ? 1 : 0;
  }
  figures.unexplained = covered_by(std::move(unexplained));
  figures.recorded_deps = timeline.recorded_deps;
  figures.inferred_deps = timeline.inferred_deps;
  figures.clock_shift = timeline.clock_shift;
  return figures;
}

// Some correlations are used again; where many launches come late, it is the clocks.
std::optional<std::string> late_launches(const RankTimeline& rank) {
  const std::int64_t late = rank.timeline.late_launches;
  const std::int64_t ops = std::ssize(rank.timeline.ops);
  if (10 * late < ops || late == 0) return std::nullopt;
  return fmt::format(
      "{}: {} of {} ops begin more than 1 ms before their launches, which are left out: the host's "
      "clock may be ahead of the device's",
      rank.recording->source, late, ops);
}

Result<Rebuilt> rebuild_ranks(std::span<const run::Recording* const> recordings,
                              const RebuildOptions& options, bool may_drift) {
  const auto ranks = ranks_of(recordings);
  if (!ranks) return tl::unexpected(ranks.error());
  const std::uint32_t world_size = world_size_of(recordings, *ranks);
  std::deque<RankTimeline> parts;
  RankTimelines timelines;
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    const auto window = window_of(*recordings[i], options.step);
    if (!window) return tl::unexpected(window.error());
    if (window->activities.empty())
      return fail_at(recordings[i]->source, "has no device work{}, expected kernels to replay",
                     options.step ? fmt::format(" in step {}", *options.step) : "");
    timelines.push_back(&parts.emplace_back(*recordings[i], (*ranks)[i], *window));
  }
  const std::vector<Ns> epochs = epochs_of(recordings);
  if (may_drift)
    if (const auto undrifted = without_drift(recordings, {timelines}, epochs)) {
      std::vector<const run::Recording*> corrected;
      for (const auto& recording : undrifted->recordings) corrected.push_back(recording.get());
      auto again = rebuild_ranks(corrected, options, false);
      if (again)
        again->warnings.insert(again->warnings.end(), undrifted->notes.begin(),
                               undrifted->notes.end());
      return again;
    }
  PutTogether together = put_together({timelines}, epochs);
  const Meetings& meetings = together.meetings.front();
  const std::vector<std::vector<Ns>> usual = usual_times(timelines, meetings);
  Rebuilt rebuilt;
  rebuilt.warnings = std::move(together.warnings);
  GraphBuilder builder;
  builder.graph().world_size = world_size;
  const auto shared =
      add_communicators(timelines, together.matched.front(), rebuilt.group_sizes, builder);
  std::map<std::uint32_t, Ns> firsts;  // by island: when its first rank begins
  const auto begin = [&](std::size_t i) {
    return timelines[i]->begin + epochs[i] - together.clocks[i]->offset;
  };
  for (std::size_t i = 0; i < timelines.size(); ++i) {
    if (!together.clocks[i]) continue;
    Ns& first = firsts.try_emplace(together.clocks[i]->island, begin(i)).first->second;
    first = std::min(first, begin(i));
  }
  for (std::size_t i = 0; i < timelines.size(); ++i) {
    RebuiltRank& rank = rebuilt.ranks.emplace_back(figures(*timelines[i]));
    for (auto& warning : {late_launches(*timelines[i]), warning_of_devices(*timelines[i])})
      if (warning) rebuilt.warnings.push_back(*warning);
    const std::optional<Clock>& clock = together.clocks[i];
    if (clock && clock->island == 0) rank.clock = clock;
    rank.matched = std::count_if(meetings[i].begin(), meetings[i].end(),
                                 [](const auto& meeting) { return meeting.has_value(); });
    RankClass rank_class;
    rank_class.program = add_program(
        *timelines[i], {world_size, meetings[i], shared, usual[i], rebuilt.group_sizes}, builder);
    rank_class.name = builder.graph().strings.intern(fmt::format("rank {}", rank.rank));
    if (clock) rank_class.start_delay = begin(i) - firsts.at(clock->island);
    builder.rank_class(rank_class, std::array{rank.rank});
  }
  rebuilt.graph = builder.finish();
  return rebuilt;
}

}  // namespace

Result<Rebuilt> rebuild(std::span<const run::Recording* const> recordings,
                        const RebuildOptions& options) {
  for (const run::Recording* recording : recordings) {
    if (!is_pipeline(*recording)) continue;
    if (recordings.size() == 1) return rebuild_pipeline(*recording, options.step);
    return fail_at(recording->source, "is of all ranks of a job, expected it alone");
  }
  return rebuild_ranks(recordings, options, true);
}

}  // namespace foregather::rebuild
