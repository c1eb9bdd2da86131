#include "gui/models/document.h"

#include <algorithm>

namespace foregather::gui {
namespace {

std::vector<PairMemory> memory_of(const Session& session) {
  std::vector<PairMemory> memory;
  for (const RankPair& pair : session.pairs()) memory.push_back(pair_memory(session, pair));
  return memory;
}

std::vector<OpKind> kinds_of(const Session& session) {
  std::array<bool, compare::kOpKinds> has{};
  for (std::size_t side = 0; side < session.sides(); ++side)
    for (const OpKind kind : session.run(side).ops.kind) has[static_cast<std::size_t>(kind)] = true;
  std::vector<OpKind> kinds;
  for (std::size_t kind = 0; kind < has.size(); ++kind)
    if (has[kind]) kinds.push_back(static_cast<OpKind>(kind));
  return kinds;
}

}  // namespace

Document::Document(Session&& opened)
    : session(std::move(opened)),
      lanes(build_lanes(session)),
      memory(memory_of(session)),
      flows(session),
      residuals(session),
      kinds(kinds_of(session)) {}

Result<std::shared_ptr<const Document>> Document::open(std::vector<OpenRun> runs,
                                                       const std::vector<std::uint32_t>& ranks) {
  auto session = Session::open(std::move(runs));
  if (!session) return tl::unexpected(session.error());
  if (const Status kept = session->keep_ranks(ranks); !kept) return tl::unexpected(kept.error());
  return std::shared_ptr<const Document>(new Document(std::move(*session)));
}

bool Document::has_memory() const {
  return std::any_of(memory.begin(), memory.end(), [](const PairMemory& pair) {
    return std::any_of(pair.begin(), pair.end(),
                       [](const auto& rank) { return rank && !rank->empty(); });
  });
}

std::optional<Span> Document::counterpart(const Span& span) const {
  if (span.kind == SpanKind::call) return std::nullopt;
  const run::OpRow op(span.row);
  const auto pair = session.pair_of(span.side, op, span.pair);
  if (!pair || !session.pairs()[*pair].matching) return std::nullopt;
  const compare::Matching& matching = *session.pairs()[*pair].matching;
  const std::size_t first =
      run::ops_of(session.run(span.side), session.run(span.side).ops.step[span.row]).first;
  const ResidualRow& row = residuals.of(*pair, matching.group_of[span.side][span.row - first]);
  const run::OpRow other = span.side == 0 ? row.second : row.first;
  if (!other) return std::nullopt;
  return Span{1 - span.side, SpanKind::op, other.row(), pair};
}

std::optional<Document::Place> Document::place_of(const Span& span) const {
  const TimeRange range = range_of(session, span);
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    const LaneSide& side = lanes[l].sides[span.side];
    if (side.kind != span.kind || (span.pair && lanes[l].pair != *span.pair)) continue;
    for (std::size_t t = 0; t < side.tracks.size(); ++t) {
      const Track& track = side.tracks[t];
      for (std::size_t at = track.first_after(range.begin);
           at < track.size() && track.begin(at) <= range.begin; ++at)
        if (track.item(at) == span.row) return Place{l, span.side, t, at};
    }
  }
  return std::nullopt;
}

}  // namespace foregather::gui
