#include "core/compare/critical_path.h"

#include <algorithm>
#include <map>

#include "core/compare/intervals.h"

namespace foregather::compare {
namespace {

using run::BoundReason;
using run::OpRow;

OpRow last_to_end(run::RunView run, run::StepRow step) {
  const auto [first, last] = run::ops_of(run, step);
  OpRow found;
  for (std::size_t i = first; i < last; ++i)
    if (!found || run.ops.end[i] >= run.ops.end[found.row()]) found = OpRow(i);
  return found;
}

run::ClassRow class_of(run::RunView run, OpRow op) {
  return run.steps[run.ops.step[op.row()].row()].rank_class;
}

bool is_host(BoundReason reason) {
  return reason == BoundReason::host || reason == BoundReason::start;
}

/// What a device does in a step.
struct Work {
  IntervalSet compute, moving, all;  ///< moving: and transfers; all: and waits of collectives
};

Work work_of(run::RunView run, run::StepRow step) {
  const auto [first, last] = run::ops_of(run, step);
  std::vector<Interval> compute, moving, all;
  for (std::size_t i = first; i < last; ++i) {
    const Interval whole{run.ops.start[i], run.ops.end[i]};
    append(all, whole);
    if (is_collective(run.ops.kind[i]))
      append(moving, {std::max(whole.begin, run.ops.transfer[i]), whole.end});
    else
      append(compute, whole);
  }
  moving.insert(moving.end(), compute.begin(), compute.end());
  return {united(std::move(compute)), united(std::move(moving)), united(std::move(all))};
}

}  // namespace

std::vector<PathStep> CriticalPath::longest(std::size_t most) const {
  std::vector<PathStep> sorted = steps;
  std::stable_sort(sorted.begin(), sorted.end(), [](const PathStep& a, const PathStep& b) {
    return a.time + a.gap > b.time + b.gap;
  });
  sorted.resize(std::min(most, sorted.size()));
  return sorted;
}

CriticalPath critical_path(run::RunView run, run::StepRow step) {
  return critical_path(run, step, run.steps[step.row()].begin);
}

CriticalPath critical_path(run::RunView run, run::StepRow step, Ns begin) {
  CriticalPath path;
  const run::StepInfo& info = run.steps[step.row()];
  OpRow at = last_to_end(run, step);
  if (!at) {
    path.host = info.end - begin;
    return path;
  }
  // `cursor` is the time that is explained from here to the step's end.
  Ns cursor = info.end;
  const std::size_t most = run.ops.size();
  std::map<std::uint32_t, Work> works;  // by step
  const auto add_host_gap = [&](PathStep& entry, const Interval& gap) {
    const run::StepRow of = run.ops.step[entry.op.row()];
    auto [work, is_new] = works.try_emplace(of.row());
    if (is_new) work->second = work_of(run, of);
    const Ns compute = covered(work->second.compute, gap);
    const Ns moving = covered(work->second.moving, gap);
    entry.beside = covered(work->second.all, gap);
    path.beside_compute += compute;
    path.beside_comm += moving - compute;
    path.other += entry.beside - moving;
    path.host += entry.gap - entry.beside;
  };
  while (path.steps.size() < most) {
    const std::size_t row = at.row();
    const BoundReason reason = run.ops.reason[row];
    const bool met = reason == BoundReason::rendezvous;
    // Of a collective the transfer: who waits in it may wait for a rank that nobody recorded.
    const Ns from = std::max(
        is_collective(run.ops.kind[row]) ? run.ops.transfer[row] : run.ops.start[row], begin);
    PathStep entry{at, std::max<Ns>(cursor - from, 0), 0, 0, reason};
    cursor = std::min(cursor, from);
    const OpRow next = run.ops.bound_by[row];
    const bool goes_on =
        next && next != at && cursor > begin && run.ops.start[next.row()] <= cursor;
    const Ns reached = goes_on ? std::clamp(run.ops.end[next.row()], begin, cursor) : begin;
    // The last rank's part of a collective begins where this one's wait ends. If that rank was not
    // recorded, the op goes on from what it came behind itself.
    const bool has_last = goes_on && met && class_of(run, next) != class_of(run, at);
    entry.gap = has_last ? 0 : cursor - reached;
    if (!is_host(reason))
      path.other += entry.gap;
    else if (entry.gap > 0)
      add_host_gap(entry, {reached, cursor});
    (is_collective(run.ops.kind[row]) ? path.comm : path.compute) += entry.time;
    cursor -= entry.gap;
    path.steps.push_back(entry);
    if (!goes_on) break;
    at = next;
  }
  path.compute += path.beside_compute;
  path.comm += path.beside_comm;
  std::reverse(path.steps.begin(), path.steps.end());
  return path;
}

}  // namespace foregather::compare
