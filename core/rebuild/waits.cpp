#include "core/rebuild/waits.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace foregather::rebuild {
namespace {

/// How soon after the end of another op a start is taken for its consequence.
constexpr Ns kConsequence = 20 * kMicrosecond;

class Finding {
 public:
  Finding(const run::Recording& recording, Timeline& timeline, Ns shift)
      : recording_(recording), timeline_(timeline), shift_(shift) {
    for (const RecordedStream& stream : timeline.streams) {
      // The latest launch so far: what a search by launch time needs. One without a record came
      // before all others.
      auto& launches = launches_.emplace_back();
      Ns latest = std::numeric_limits<Ns>::min();
      for (const std::uint32_t row : stream.ops) {
        const RecordedOp& op = timeline.ops[row];
        if (op.has_launch) latest = std::max(latest, called(timeline.calls[op.call].row));
        launches.push_back(latest);
      }
    }
  }

  void run() {
    const bool has_records = from_records();
    if (!has_records) from_calls();
    from_times();
    for (RecordedOp& op : timeline_.ops) {
      std::sort(op.deps.begin(), op.deps.end());
      op.deps.erase(std::unique(op.deps.begin(), op.deps.end()), op.deps.end());
    }
  }

 private:
  // The host is ahead of the device: calls before the first device work have times below 0.
  Ns called(run::CallRow call) const { return recording_.calls.start[call.row()] - shift_; }

  // The last op of a stream that was launched before `time`.
  std::optional<std::uint32_t> last_before(std::uint32_t stream, Ns time) const {
    const auto& launches = launches_[stream];
    const auto end = std::upper_bound(launches.begin(), launches.end(), time);
    if (end == launches.begin()) return std::nullopt;
    return timeline_.streams[stream].ops[static_cast<std::size_t>(end - launches.begin()) - 1];
  }
  std::optional<std::uint32_t> first_after(std::uint32_t stream, Ns time) const {
    const auto& launches = launches_[stream];
    const auto at = std::lower_bound(launches.begin(), launches.end(), time);
    if (at == launches.end()) return std::nullopt;
    return timeline_.streams[stream].ops[static_cast<std::size_t>(at - launches.begin())];
  }
  bool add(std::uint32_t op, std::uint32_t dep) {
    if (timeline_.ops[dep].end > timeline_.ops[op].start ||
        timeline_.ops[dep].position >= timeline_.ops[op].position ||
        timeline_.ops[dep].stream == timeline_.ops[op].stream)
      return false;
    timeline_.ops[op].deps.push_back(dep);
    return true;
  }
  StringId device(std::uint32_t op) const {
    return recording_.lanes[timeline_.streams[timeline_.ops[op].stream].lane.row()].process;
  }

  bool from_records() {
    const run::SyncColumns& rows = recording_.syncs;
    const auto calls = calls_by_correlation(recording_);
    const auto call_time = [&](run::CorrelationId id) -> std::optional<Ns> {
      if (!id || !calls[id.row()]) return std::nullopt;
      return called(calls[id.row()]);
    };
    bool has_any = false;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!rows.awaited_stream[i]) continue;
      has_any = true;
      const auto waits = call_time(rows.correlation[i]);
      if (!waits) continue;
      const Ns recorded = call_time(rows.recorded[i]).value_or(*waits);
      for (std::uint32_t s = 0; s < timeline_.streams.size(); ++s) {
        if (timeline_.streams[s].lane != rows.lane[i]) continue;
        const auto op = first_after(s, *waits);
        if (!op) continue;
        for (std::uint32_t other = 0; other < timeline_.streams.size(); ++other) {
          const run::Lane& lane = recording_.lanes[timeline_.streams[other].lane.row()];
          if (lane.thread != rows.awaited_stream[i]) continue;
          const auto dep = last_before(other, recorded);
          if (dep && add(*op, *dep)) ++timeline_.recorded_deps;
        }
      }
    }
    return has_any;
  }

  void from_calls() {
    struct Wait {
      Ns recorded = 0;  // when the event was
      std::optional<std::uint32_t> failed_on;
    };
    for (const RecordedThread& thread : timeline_.threads) {
      std::optional<Ns> recorded;
      std::vector<Wait> waits;
      for (const std::uint32_t row : thread.calls) {
        const RecordedCall& call = timeline_.calls[row];
        if (call.kind == CallClass::record_event) recorded = called(call.row);
        if (call.kind == CallClass::wait_event)
          waits.push_back({recorded.value_or(called(call.row)), {}});
        if (call.ops.empty()) continue;
        const std::uint32_t op = call.ops.front(), stream = timeline_.ops[op].stream;
        std::erase_if(waits, [&](Wait& wait) {
          if (wait.failed_on == stream) return false;
          if (wait_for_last(op, wait.recorded) || wait.failed_on) return true;
          wait.failed_on = stream;
          return false;
        });
      }
    }
  }

  // For the op of another stream of the device, launched before `time`, that ended last. False:
  // there is none.
  bool wait_for_last(std::uint32_t op, Ns time) {
    std::optional<std::uint32_t> last;
    for (std::uint32_t s = 0; s < timeline_.streams.size(); ++s) {
      const auto dep = last_before(s, time);
      if (!dep || s == timeline_.ops[op].stream || device(*dep) != device(op)) continue;
      if (timeline_.ops[*dep].end > timeline_.ops[op].start) continue;
      if (!last || timeline_.ops[*dep].end > timeline_.ops[*last].end) last = dep;
    }
    const bool waits = last && add(op, *last);
    timeline_.inferred_deps += waits ? 1 : 0;
    return waits;
  }

  void from_times() {
    std::vector<std::uint32_t> by_end(timeline_.ops.size());
    for (std::uint32_t i = 0; i < by_end.size(); ++i) by_end[i] = i;
    std::sort(by_end.begin(), by_end.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(timeline_.ops[a].end, a) < std::pair(timeline_.ops[b].end, b);
    });
    std::size_t ended = 0;
    for (std::uint32_t i = 0; i < timeline_.ops.size(); ++i) {
      const RecordedOp& op = timeline_.ops[i];
      while (ended < by_end.size() && timeline_.ops[by_end[ended]].end <= op.start) ++ended;
      Ns left = op.lead;
      if (op.has_launch) left = std::min(left, op.start - op.launched);
      for (const std::uint32_t dep : op.deps)
        left = std::min(left, op.start - timeline_.ops[dep].end);
      if (left <= kConsequence) continue;
      for (std::size_t k = ended; k-- > 0;) {
        const RecordedOp& before = timeline_.ops[by_end[k]];
        if (op.start - before.end > kConsequence) break;
        if (device(by_end[k]) != device(i) || !add(i, by_end[k])) continue;
        ++timeline_.inferred_deps;
        break;
      }
    }
  }

  const run::Recording& recording_;
  Timeline& timeline_;
  Ns shift_;
  std::vector<std::vector<Ns>> launches_;  // by stream, running maximum
};

}  // namespace

void find_waits(const run::Recording& recording, Timeline& timeline, Ns shift) {
  Finding(recording, timeline, shift).run();
}

}  // namespace foregather::rebuild
