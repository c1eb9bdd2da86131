#include "core/rebuild/rebuild.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/ir/builder.h"
#include "core/rebuild/job.h"
#include "core/rebuild/rank_program.h"
#include "core/rebuild/timeline.h"
#include "core/rebuild/window.h"

namespace foregather::rebuild {
namespace {

RebuiltRank figures(const run::Recording& recording, const Timeline& timeline, std::uint32_t rank) {
  RebuiltRank figures;
  figures.source = recording.source;
  figures.rank = rank;
  figures.measured = timeline.length;
  figures.ops = static_cast<std::int64_t>(timeline.ops.size());
  figures.streams = static_cast<std::int64_t>(timeline.streams.size());
  // By start: stretches before ops, each counted once where they overlap.
  Ns done = 0;
  for (const RecordedOp& op : timeline.ops) {
    figures.unexplained += std::max<Ns>(op.start - std::max(done, op.start - op.unexplained), 0);
    if (op.unexplained > 0) done = std::max(done, op.start);
    figures.pinned += op.is_pinned ? 1 : 0;
  }
  figures.recorded_deps = timeline.recorded_deps;
  figures.inferred_deps = timeline.inferred_deps;
  figures.clock_shift = timeline.clock_shift;
  return figures;
}

}  // namespace

Result<Rebuilt> rebuild(std::span<const run::Recording* const> recordings,
                        const RebuildOptions& options) {
  const auto ranks = ranks_of(recordings);
  if (!ranks) return tl::unexpected(ranks.error());
  const std::uint32_t world_size = world_size_of(recordings, *ranks);
  Rebuilt rebuilt;
  GraphBuilder builder;
  builder.graph().world_size = world_size;
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    const run::Recording& recording = *recordings[i];
    const std::uint32_t rank = (*ranks)[i];
    const auto window = window_of(recording, options.step);
    if (!window) return tl::unexpected(window.error());
    if (window->activities.empty())
      return fail_at(recording.source, "has no device work{}, expected kernels to replay",
                     options.step ? fmt::format(" in step {}", *options.step) : "");
    const Timeline timeline = timeline_of(recording, *window);
    rebuilt.ranks.push_back(figures(recording, timeline, rank));
    RankClass rank_class;
    rank_class.program = add_program(recording, timeline, rank, world_size, builder);
    rank_class.name = builder.graph().strings.intern(fmt::format("rank {}", rank));
    builder.rank_class(rank_class, std::array{rank});
  }
  rebuilt.graph = builder.finish();
  return rebuilt;
}

}  // namespace foregather::rebuild
