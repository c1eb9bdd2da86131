#include "core/compare/exposed.h"

#include <vector>

#include "core/compare/intervals.h"

namespace foregather::compare {
namespace {

Ns exposed(const IntervalSet& comm, const IntervalSet& compute) {
  return length(comm) - length(intersection(comm, compute));
}

}  // namespace

BusyTimes busy_times(run::RunView run, run::StepRow step) {
  BusyTimes times;
  std::vector<Interval> compute, comm;
  std::array<std::vector<Interval>, kOpKinds> of_kind;
  const auto [first, last] = run::ops_of(run, step);
  times.ops = static_cast<std::int64_t>(last - first);
  for (std::size_t i = first; i < last; ++i) {
    const OpKind kind = run.ops.kind[i];
    if (!is_collective(kind)) {
      append(compute, {run.ops.start[i], run.ops.end[i]});
      continue;
    }
    const Interval transfer{run.ops.transfer[i], run.ops.end[i]};
    append(comm, transfer);
    append(of_kind[static_cast<std::size_t>(kind)], transfer);
    CollectiveUse& use = times.by_kind[static_cast<std::size_t>(kind)];
    ++use.count;
    use.bytes += run.ops.bytes[i];
    times.wait += run.ops.transfer[i] - run.ops.start[i];
    times.transfer += run.ops.end[i] - run.ops.transfer[i];
    times.wire_bytes += run.ops.wire_bytes[i];
  }
  const IntervalSet computing = united(std::move(compute));
  const IntervalSet communicating = united(std::move(comm));
  times.compute = length(computing);
  times.comm = length(communicating);
  times.exposed = exposed(communicating, computing);
  for (std::size_t kind = 0; kind < kOpKinds; ++kind) {
    if (of_kind[kind].empty()) continue;
    const IntervalSet set = united(std::move(of_kind[kind]));
    times.by_kind[kind].busy = length(set);
    times.by_kind[kind].exposed = exposed(set, computing);
  }
  return times;
}

}  // namespace foregather::compare
