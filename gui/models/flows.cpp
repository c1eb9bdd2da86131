#include "gui/models/flows.h"

namespace foregather::gui {

Flows::Flows(const Session& session) : session_(session) {
  for (std::size_t side = 0; side < session.sides(); ++side) {
    run::GatherArrows gathers(session.run(side));
    for (std::size_t i = 0; i < session.run(side).ops.size(); ++i)
      if (const auto arrow = gathers.to(run::OpRow(i))) gathers_[side].push_back(*arrow);
  }
}

Flow Flows::wait(std::size_t side, const run::Arrow& arrow, FlowKind kind) const {
  return {kind,
          {side, SpanKind::op, arrow.from.row()},
          {side, SpanKind::op, arrow.to.row()},
          session_.on_axis(side, arrow.from_time),
          session_.on_axis(side, arrow.to_time)};
}

Flow Flows::launch(std::size_t side, run::OpRow op) const {
  run::RunView run = session_.run(side);
  const run::HostCallRow call = run.ops.launch[op.row()];
  const Ns start = run.ops.start[op.row()];
  const Ns left =
      call && call.row() < run.calls.size() ? run.calls[call.row()].end : run.ops.issued[op.row()];
  Flow flow;
  flow.kind = FlowKind::launch;
  flow.from =
      call ? Span{side, SpanKind::call, call.row()} : Span{side, SpanKind::launch, op.row()};
  flow.to = {side, SpanKind::op, op.row()};
  flow.from_time = session_.on_axis(side, std::min(left, start));
  flow.to_time = session_.on_axis(side, start);
  return flow;
}

std::vector<Flow> Flows::of_op(std::size_t side, run::OpRow op) const {
  run::RunView run = session_.run(side);
  std::vector<Flow> found;
  if (session_.knows_launches(side)) found.push_back(launch(side, op));
  if (const auto arrow = run::wait_arrow(run, op))
    found.push_back(wait(side, *arrow, FlowKind::wait));
  for (const run::Arrow& arrow : gathers_[side])
    if (arrow.to == op) found.push_back(wait(side, arrow, FlowKind::gather));
  for (std::size_t i = 0; i < run.ops.size(); ++i)
    if (run.ops.bound_by[i] == op)
      if (const auto arrow = run::wait_arrow(run, run::OpRow(i)))
        found.push_back(wait(side, *arrow, FlowKind::wait));
  for (const run::Arrow& arrow : gathers_[side])
    if (arrow.from == op) found.push_back(wait(side, arrow, FlowKind::gather));
  return found;
}

std::vector<Flow> Flows::of(const Span& span) const {
  run::RunView run = session_.run(span.side);
  if (span.kind == SpanKind::op) return of_op(span.side, run::OpRow(span.row));
  if (span.kind == SpanKind::launch) return {launch(span.side, run::OpRow(span.row))};
  std::vector<Flow> found;
  for (std::size_t i = 0; i < run.ops.size(); ++i)
    if (run.ops.launch[i] == run::HostCallRow(span.row))
      found.push_back(launch(span.side, run::OpRow(i)));
  return found;
}

}  // namespace foregather::gui
