#include "core/rebuild/memory_rows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace foregather::rebuild {
namespace {

/// When an allocation or a free was, and by whom.
struct Moment {
  Ns time = 0;
  run::LaneRow lane;
};

struct Life {
  std::uint64_t address = 0;
  Bytes bytes = 0;
  std::optional<Moment> born, freed;  ///< absent: before, behind the recording
};

using Lives = std::vector<Life>;

/// In order of time.
Lives lives_of(const run::Recording& recording, UnusedMemory& unused, Bytes& held_before) {
  const run::MemoryColumns& rows = recording.memory;
  Lives lives;
  std::map<std::pair<StringId, std::uint64_t>, std::size_t> live;
  std::map<StringId, Bytes> before;             // by device: held when its events begin
  std::vector<std::size_t> order(rows.size());  // files list one thread after the other
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rows.time[a] < rows.time[b]; });
  for (const std::size_t i : order) {
    if (!recording.text(rows.device[i]).starts_with("1:")) continue;
    if (rows.address[i] == 0) {
      ++unused.without_address;
      continue;
    }
    before.try_emplace(rows.device[i], std::max<Bytes>(rows.total_allocated[i] - rows.bytes[i], 0));
    const Moment moment{rows.time[i], rows.lane[i]};
    const std::pair key(rows.device[i], rows.address[i]);
    if (rows.bytes[i] >= 0) {
      live[key] = lives.size();
      lives.push_back({rows.address[i], rows.bytes[i], moment, {}});
      continue;
    }
    const auto known = live.find(key);
    if (known != live.end()) {
      lives[known->second].freed = moment;
      live.erase(known);
      continue;
    }
    lives.push_back({rows.address[i], -rows.bytes[i], {}, moment});
    Bytes& held = before[rows.device[i]];
    held = std::max<Bytes>(held + rows.bytes[i], 0);
  }
  for (const auto& [device, bytes] : before) held_before += bytes;
  return lives;
}

/// Ops of a step by the thread that launched them, in order; under no lane: all.
class Launches {
 public:
  Launches(const run::Recording& recording, Ns origin, run::StepRow step, run::RunView run)
      : run_(run), origin_(origin) {
    std::map<std::pair<std::string_view, std::string_view>, run::LaneRow> lanes;
    for (std::size_t i = 0; i < recording.lanes.size(); ++i)
      lanes.emplace(std::pair(recording.text(recording.lanes[i].process),
                              recording.text(recording.lanes[i].thread)),
                    run::LaneRow(i));
    const run::OpSpan span = run::ops_of(run, step);
    for (std::size_t op = span.first; op < span.last; ++op) {
      if (!run.ops.launch[op]) continue;
      const run::HostCallRecord& call = run.calls[run.ops.launch[op].row()];
      const run::ThreadInfo& thread = run.threads[call.thread.row()];
      const auto lane = lanes.find({run.text_of(thread.process), run.text_of(thread.name)});
      if (lane != lanes.end()) by_lane_[lane->second].emplace_back(call.start, run::OpRow(op));
      by_lane_[run::LaneRow()].emplace_back(call.start, run::OpRow(op));
    }
    for (auto& [lane, launches] : by_lane_) std::sort(launches.begin(), launches.end());
  }

  /// The op that the thread, or any where it is not known, launches next; absent: none in the step.
  run::OpRow next(const Moment& moment) const {
    const auto launches = by_lane_.find(moment.lane);
    if (launches == by_lane_.end()) return {};
    const auto at = std::lower_bound(launches->second.begin(), launches->second.end(),
                                     std::pair(moment.time - origin_, run::OpRow(0)));
    return at == launches->second.end() ? run::OpRow() : at->second;
  }
  Phase phase(const Moment& moment) const {
    const run::OpRow op = next(moment);
    return op ? run_.ops.phase[op.row()] : Phase::other;
  }

 private:
  run::RunView run_;
  Ns origin_;
  std::unordered_map<run::LaneRow, std::vector<std::pair<Ns, run::OpRow>>> by_lane_;
};

Cause cause_of(Phase born, std::optional<Phase> freed) {
  if (freed == born) return Cause::temporary;
  switch (born) {
    case Phase::forward:
      return freed == Phase::backward || freed == Phase::recompute ? Cause::activation
                                                                   : Cause::unknown;
    case Phase::backward:
    case Phase::recompute: return Cause::gradient;
    case Phase::optimizer: return freed ? Cause::temporary : Cause::persistent;
    case Phase::other: break;
  }
  return Cause::unknown;
}

}  // namespace

UnusedMemory add_allocations(const run::Recording& recording, const Window& window, Ns origin,
                             run::StepRow step, run::Run& run) {
  UnusedMemory unused;
  Bytes held_before = 0;
  const Lives lives = lives_of(recording, unused, held_before);
  if (lives.empty()) return unused;
  const Launches launches(recording, origin, step, run);
  // The host is ahead of the device: it may free before the step's first op starts.
  Ns begin = run.steps[step.row()].begin, end = run.steps[step.row()].end;
  for (std::size_t i = 0; i < recording.memory.size(); ++i) {
    const Ns time = recording.memory.time[i];
    if (time >= window.host_begin && time < window.host_end)
      begin = std::min(begin, time - origin - 1);
  }
  const auto before = [&](const std::optional<Moment>& moment) {
    return !moment || moment->time < window.host_begin;
  };
  if (held_before > 0) {
    run::BindingRecord held;
    held.step = step;
    held.name = run.text("held before the recording");
    held.cause = Cause::persistent;
    held.bytes = held.block_bytes = held_before;
    held.allocated = begin;
    held.freed = end;
    held.from_before = held.still_bound = true;
    run.add(held);
  }
  for (const Life& life : lives) {
    if (life.freed && life.freed->time < window.host_begin) continue;
    if (life.born && life.born->time >= window.host_end) continue;
    run::BindingRecord row;
    row.step = step;
    row.bytes = row.block_bytes = life.bytes;
    row.address = life.address;
    row.from_before = before(life.born);
    row.still_bound = !life.freed || life.freed->time >= window.host_end;
    row.allocated = row.from_before ? begin : life.born->time - origin;
    row.freed = row.still_bound ? std::max(end, row.allocated) : life.freed->time - origin;
    if (!row.from_before) row.before_op = launches.next(*life.born);
    if (row.before_op) row.scope = run.ops.scope[row.before_op.row()];
    std::optional<Phase> freed;
    if (!row.still_bound) freed = launches.phase(*life.freed);
    if (!row.from_before)
      row.cause = cause_of(launches.phase(*life.born), freed);
    else if (row.still_bound)
      row.cause = Cause::persistent;
    else
      row.cause = freed == Phase::backward ? Cause::activation : Cause::unknown;
    run.add(row);
  }
  run.steps[step.row()].causes_inferred = true;
  return unused;
}

}  // namespace foregather::rebuild
