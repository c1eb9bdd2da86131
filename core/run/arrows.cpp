#include "core/run/arrows.h"

#include <algorithm>
#include <utility>

namespace foregather::run {
namespace {

// Within the slice of `from`, at its end if that is early enough.
std::optional<Arrow> arrow(RunView run, OpRow from, OpRow to, Ns to_time) {
  const Ns begin = run.ops.start[from.row()];
  if (begin > to_time) return std::nullopt;
  const Ns last = std::max(begin, run.ops.end[from.row()] - 1);
  return Arrow{from, to, std::min(last, to_time), to_time};
}

}  // namespace

std::optional<Arrow> wait_arrow(RunView run, OpRow to) {
  const std::size_t row = to.row();
  const OpRow from = run.ops.bound_by[row];
  if (!from || run.ops.stream[from.row()] == run.ops.stream[row]) return std::nullopt;
  const bool has_waited = run.ops.reason[row] == BoundReason::rendezvous;
  return arrow(run, from, to, has_waited ? run.ops.transfer[row] : run.ops.start[row]);
}

std::optional<Arrow> GatherArrows::to(OpRow to) {
  const std::size_t row = to.row();
  const StringId unit = run_.ops.unit[row];
  if (!unit) return std::nullopt;
  OpRow& gather = gathers_[unit.row()];
  const Role role = run_.ops.role[row];
  if (role == Role::gather) {
    gather = to;
    return std::nullopt;
  }
  const bool needs_it = role == Role::copy_out || role == Role::compute;
  if (!gather || !needs_it || run_.ops.step[row] != run_.ops.step[gather.row()] ||
      run_.ops.start[row] < run_.ops.end[gather.row()])
    return std::nullopt;
  const OpRow from = std::exchange(gather, {});
  if (run_.ops.bound_by[row] == from) return std::nullopt;
  return arrow(run_, from, to, run_.ops.start[row]);
}

}  // namespace foregather::run
