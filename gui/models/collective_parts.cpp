#include "gui/models/collective_parts.h"

#include <algorithm>

namespace foregather::gui {

std::vector<CommSpan> collective_parts(const Session& session, std::size_t side,
                                       const RankStep& rank, run::OpRow op) {
  const run::OpColumns& ops = session.run(side).ops;
  if (!is_collective(ops.kind[op.row()])) return {};
  std::vector<CommSpan> parts;
  const auto add = [&](CommPart part, Ns begin, Ns end) {
    if (begin < end)
      parts.push_back({part, {session.on_axis(side, begin), session.on_axis(side, end)}});
  };
  Ns at = ops.transfer[op.row()];
  const Ns end = ops.end[op.row()];
  add(CommPart::wait, ops.start[op.row()], at);
  auto computing = std::upper_bound(
      rank.computing.begin(), rank.computing.end(), at,
      [](Ns time, const compare::Interval& interval) { return time < interval.end; });
  for (; computing != rank.computing.end() && computing->begin < end; ++computing) {
    const Ns begin = std::max(at, computing->begin);
    add(CommPart::exposed, at, begin);
    at = std::min(end, computing->end);
    add(CommPart::hidden, begin, at);
  }
  add(CommPart::exposed, at, end);
  return parts;
}

}  // namespace foregather::gui
