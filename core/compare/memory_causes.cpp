#include "core/compare/memory_causes.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

namespace foregather::compare {
namespace {

struct Change {
  Ns time = 0;
  Bytes bytes = 0;
  Cause cause = Cause::temporary;
};

// Frees come before allocations of the same time, so what lives for no time holds nothing.
std::vector<Change> changes(run::RunView run, run::StepRow step) {
  std::vector<Change> changes;
  for (const run::BindingRecord& binding : run.bindings) {
    if (binding.step != step) continue;
    if (!binding.still_bound && binding.freed <= binding.allocated) continue;
    changes.push_back({binding.allocated, binding.block_bytes, binding.cause});
    if (!binding.still_bound)
      changes.push_back({binding.freed, -binding.block_bytes, binding.cause});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tie(a.time, a.bytes, a.cause) < std::tie(b.time, b.bytes, b.cause);
  });
  return changes;
}

Bytes& of(MemoryAtPeak& memory, Cause cause) {
  return memory.by_cause[static_cast<std::size_t>(cause)];
}

void move(MemoryAtPeak& memory, Cause from, Cause to) {
  of(memory, to) += std::exchange(of(memory, from), 0);
}

}  // namespace

bool MemoryAtPeak::knows(Cause cause) const {
  const Bytes all = total();
  return all > 0 &&
         (cause == Cause::unknown || all > by_cause[static_cast<std::size_t>(Cause::unknown)]);
}

Bytes MemoryAtPeak::total() const {
  return std::accumulate(by_cause.begin(), by_cause.end(), Bytes{0});
}

MemoryAtPeak memory_at_peak(run::RunView run, run::StepRow step) {
  MemoryAtPeak peak;
  peak.is_inferred = run.steps[step.row()].causes_inferred;
  for (const run::CauseRecord& cause : run.causes)
    if (cause.step == step) of(peak, cause.cause) += cause.bytes;
  if (peak.total() != 0) return peak;
  MemoryAtPeak now = peak;
  Bytes total = 0, most = 0;
  for (const Change& change : changes(run, step)) {
    of(now, change.cause) += change.bytes;
    total += change.bytes;
    if (total <= most) continue;
    most = total;
    peak = now;
  }
  return peak;
}

void fold_as_inferred(MemoryAtPeak& memory) {
  move(memory, Cause::parameter_shard, Cause::persistent);
  move(memory, Cause::optimizer_state, Cause::persistent);
  move(memory, Cause::reduced_gradient, Cause::gradient);
}

}  // namespace foregather::compare
