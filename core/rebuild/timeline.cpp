#include "core/rebuild/timeline.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "core/rebuild/blocking.h"
#include "core/rebuild/waits.h"

namespace foregather::rebuild {
namespace {

/// A launch recorded later than its op by more than this is another op's (reused correlations).
constexpr Ns kMostClockShift = kMillisecond;
constexpr Ns kRounding = 2 * kMicrosecond;
/// Latencies that need no explanation: from a launch to an idle stream, and between two ops of a
/// stream.
constexpr Ns kLaunchLatency = 20 * kMicrosecond, kDispatchGap = 5 * kMicrosecond;
/// What they are where a recording has none of them (medians of recorded traces: 4 to 8 µs, 1 µs).
constexpr Ns kUsualLaunch = 6 * kMicrosecond, kUsualGap = kMicrosecond;

Ns median_or(std::vector<Ns>& values, Ns otherwise) {
  if (values.empty()) return otherwise;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Joining {
 public:
  Joining(const run::Recording& recording, const Window& window)
      : recording_(recording), window_(window) {}

  Timeline run() {
    timeline_.length = window_.length();
    find_clock_shift();
    add_calls();
    add_ops();
    add_streams();
    issue_in_stream_order();
    add_launch_order();
    find_waits(recording_, timeline_, shift());
    find_blocking_calls(recording_, timeline_);
    add_host_waits();
    issue_late();
    for (RecordedOp& op : timeline_.ops) explain(op);
    add_usual_leads();
    return std::move(timeline_);
  }

 private:
  Ns shift() const { return window_.begin + timeline_.clock_shift; }

  run::CallRow launch_of(run::ActivityRow row) const {
    const run::ActivityColumns& rows = recording_.activities;
    if (!rows.correlation[row.row()]) return {};
    const run::CallRow call = calls_[rows.correlation[row.row()].row()];
    if (!call || recording_.calls.start[call.row()] > rows.start[row.row()] + kMostClockShift)
      return {};
    return call;
  }

  // Device and host clocks differ by some microseconds in some traces.
  void find_clock_shift() {
    calls_ = calls_by_correlation(recording_);
    const auto& correlations = recording_.activities.correlation;
    for (const run::ActivityRow row : window_.activities)
      if (const run::CallRow call = launch_of(row))
        timeline_.clock_shift =
            std::max(timeline_.clock_shift,
                     recording_.calls.start[call.row()] - recording_.activities.start[row.row()]);
      else if (correlations[row.row()] && calls_[correlations[row.row()].row()])
        ++timeline_.late_launches;
  }

  // Rounded times let a call begin a little before the one before it ends.
  bool is_within(std::uint32_t call, Ns end) const {
    const run::CallColumns& rows = recording_.calls;
    const Ns overlap = end - rows.start[call];
    if (overlap <= 0) return false;
    return rows.end[call] <= end || overlap > kRounding ||
           2 * overlap > rows.end[call] - rows.start[call];
  }

  // The threads that launch in the window, and what they call until their last launch.
  void add_calls() {
    const run::CallColumns& rows = recording_.calls;
    struct Use {
      Ns first = 0, last = 0;
      std::uint32_t thread = 0;
    };
    std::unordered_map<std::uint32_t, Use> used;  // by lane
    for (const run::ActivityRow row : window_.activities) {
      const run::CallRow call = launch_of(row);
      if (!call) continue;
      const Ns start = rows.start[call.row()];
      const auto [use, is_new] =
          used.try_emplace(rows.lane[call.row()].row(), Use{start, start, 0});
      use->second.first = std::min(use->second.first, start);
      use->second.last = std::max(use->second.last, start);
      if (!is_new) continue;
      use->second.thread = static_cast<std::uint32_t>(timeline_.threads.size());
      timeline_.threads.push_back({rows.lane[call.row()], {}});
    }
    std::vector<std::optional<CallClass>> classes(recording_.strings.size());
    const auto class_of = [&](std::uint32_t row) {
      std::optional<CallClass>& known = classes[rows.name[row].row()];
      if (!known) known = call_class(recording_.text(rows.name[row]));
      return *known;
    };
    // What a thread waits for before its first launch is a part of the window, too.
    std::unordered_map<std::uint32_t, Ns> waits;  // by lane: its last wait before that
    const Ns begin = std::max(shift(), window_.host_begin);
    for (std::uint32_t i = 0; i < rows.size(); ++i) {
      const auto use = used.find(rows.lane[i].row());
      if (use == used.end() || rows.start[i] < begin || rows.start[i] >= use->second.first)
        continue;
      const CallClass kind = class_of(i);
      if (kind != CallClass::synchronize_device && kind != CallClass::synchronize_stream &&
          kind != CallClass::synchronize_event)
        continue;
      Ns& last = waits.try_emplace(rows.lane[i].row(), rows.start[i]).first->second;
      last = std::max(last, rows.start[i]);
    }
    for (const auto& [lane, start] : waits) used.at(lane).first = start;
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < rows.size(); ++i) {
      const auto use = used.find(rows.lane[i].row());
      if (use != used.end() && rows.start[i] >= use->second.first &&
          rows.start[i] <= use->second.last)
        order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(rows.start[a], -rows.end[a]) < std::pair(rows.start[b], -rows.end[b]);
    });
    outer_.assign(rows.size(), kNone);
    std::vector<std::uint32_t> last(timeline_.threads.size(), kNone);  // by thread, of calls
    std::vector<Ns> ends(timeline_.threads.size());                    // of these, as recorded
    for (const std::uint32_t i : order) {
      const std::uint32_t thread = used.at(rows.lane[i].row()).thread;
      Ns start = std::max<Ns>(rows.start[i] - shift(), 0);
      const Ns end = std::max<Ns>(rows.end[i] - shift(), 0);
      if (last[thread] != kNone && is_within(i, ends[thread])) {
        RecordedCall& outer = timeline_.calls[last[thread]];
        outer.end = std::max(outer.end, end);
        ends[thread] = std::max(ends[thread], rows.end[i]);
        if (outer.kind == CallClass::other) outer.kind = class_of(i);
      } else {
        if (last[thread] != kNone) start = std::max(start, timeline_.calls[last[thread]].end);
        last[thread] = static_cast<std::uint32_t>(timeline_.calls.size());
        ends[thread] = rows.end[i];
        RecordedCall& call = timeline_.calls.emplace_back();
        call.row = run::CallRow(i);
        call.thread = thread;
        call.kind = class_of(i);
        call.start = call.issued = start;
        call.end = std::max(start, end);
        timeline_.threads[thread].calls.push_back(last[thread]);
      }
      outer_[i] = last[thread];
    }
  }

  void add_ops() {
    for (const run::ActivityRow row : window_.activities) {
      RecordedOp op;
      op.activity = row;
      op.start = recording_.activities.start[row.row()] - window_.begin;
      op.end = recording_.activities.end[row.row()] - window_.begin;
      const run::CallRow call = launch_of(row);
      op.has_launch = call && outer_[call.row()] != kNone;
      if (op.has_launch) {
        op.call = outer_[call.row()];
        op.launched = std::min(timeline_.calls[op.call].start, op.start);
        timeline_.calls[op.call].ops.push_back(static_cast<std::uint32_t>(timeline_.ops.size()));
      }
      timeline_.ops.push_back(std::move(op));
    }
  }

  // Does an op come behind the last one of a stream, though it begins before that ends? By rounding
  // to whole microseconds, or as a programmatic launch, which may begin while the kernel before it
  // runs out. What lies longer beside another op is work of its own.
  bool follows(const RecordedStream& stream, const RecordedOp& op) const {
    const RecordedOp& before = timeline_.ops[stream.ops.back()];
    const Ns overlap = before.end - op.start;
    if (before.end > op.end) return false;
    return overlap <= kRounding ||
           2 * overlap <= std::min(op.end - op.start, before.end - before.start);
  }

  // Each op goes to the stream of its lane that has been idle longest, or to a new one.
  void add_streams() {
    using Free = std::pair<Ns, std::uint32_t>;
    std::unordered_map<std::uint32_t, std::priority_queue<Free, std::vector<Free>, std::greater<>>>
        lanes;
    for (std::uint32_t i = 0; i < timeline_.ops.size(); ++i) {
      RecordedOp& op = timeline_.ops[i];
      const run::LaneRow lane = recording_.activities.lane[op.activity.row()];
      auto& free = lanes[lane.row()];
      if (!free.empty() && follows(timeline_.streams[free.top().second], op))
        op.start = std::max(op.start, free.top().first);
      if (free.empty() || free.top().first > op.start) {
        op.stream = static_cast<std::uint32_t>(timeline_.streams.size());
        timeline_.streams.push_back({lane, {}});
      } else {
        op.stream = free.top().second;
        free.pop();
      }
      free.emplace(op.end, op.stream);
      timeline_.streams[op.stream].ops.push_back(i);
      op.lead = op.start;  // until explain(): less the end of the op before
      const auto& ops = timeline_.streams[op.stream].ops;
      if (ops.size() > 1) op.lead = op.start - timeline_.ops[ops[ops.size() - 2]].end;
    }
  }

  // Of calls of two threads that overlap the later one may hand over its op first, which its stream
  // shows. A round is one look at all ops; each but the last moves a call for good.
  void issue_in_stream_order() {
    constexpr int kMostRounds = 8;
    bool is_moved = true;
    for (int round = 0; round < kMostRounds && std::exchange(is_moved, false); ++round)
      for (const RecordedStream& stream : timeline_.streams) {
        std::uint32_t before = kNone;
        for (const std::uint32_t op : stream.ops) {
          if (!timeline_.ops[op].has_launch) continue;
          const std::uint32_t at = timeline_.ops[op].call;
          is_moved = (before != kNone && issue_behind(before, at)) || is_moved;
          before = at;
        }
      }
    for (RecordedOp& op : timeline_.ops)
      if (op.has_launch) op.launched = std::min(timeline_.calls[op.call].issued, op.start);
  }

  // Whether that moved it.
  bool issue_behind(std::uint32_t before, std::uint32_t at) {
    RecordedCall& call = timeline_.calls[at];
    const RecordedCall& other = timeline_.calls[before];
    const auto order = [](const RecordedCall& of, std::uint32_t row) {
      return std::pair(of.issued, row);
    };
    if (call.thread == other.thread || order(call, at) > order(other, before)) return false;
    const Ns issued = other.issued + (at < before ? 1 : 0);
    if (issued > call.end) return false;
    call.issued = issued;
    return true;
  }

  std::vector<std::uint32_t> calls_by_issue() const {
    std::vector<std::uint32_t> rows(timeline_.calls.size());
    std::iota(rows.begin(), rows.end(), 0U);
    std::ranges::stable_sort(rows, {}, [&](std::uint32_t i) { return timeline_.calls[i].issued; });
    return rows;
  }

  // Ops whose launch has no record are launched right behind the one before them on their stream.
  void add_launch_order() {
    std::vector<std::uint32_t> next(timeline_.ops.size(), kNone);
    for (const RecordedStream& stream : timeline_.streams)
      for (std::size_t i = 1; i < stream.ops.size(); ++i) next[stream.ops[i - 1]] = stream.ops[i];
    std::uint32_t position = 0;
    const auto launch = [&](std::uint32_t op, Ns time, std::vector<std::uint32_t>& list) {
      do {
        timeline_.ops[op].position = position++;
        timeline_.ops[op].launched = time;
        list.push_back(op);
        op = next[op];
      } while (op != kNone && !timeline_.ops[op].has_launch);
    };
    for (const RecordedStream& stream : timeline_.streams)
      if (!timeline_.ops[stream.ops.front()].has_launch)
        launch(stream.ops.front(), 0, timeline_.unlaunched);
    for (const std::uint32_t row : calls_by_issue()) {
      RecordedCall& call = timeline_.calls[row];
      for (const std::uint32_t op : std::exchange(call.ops, {})) launch(op, call.issued, call.ops);
    }
  }

  void add_host_waits() {
    for (const RecordedCall& call : timeline_.calls)
      if (call.awaited && timeline_.ops[*call.awaited].end > call.start)
        host_waits_.emplace_back(call.end, *call.awaited);
    std::sort(host_waits_.begin(), host_waits_.end());
  }

  // What held the host back last before it launched the op: threads hand over to each other.
  std::optional<std::uint32_t> waited_for_before(const RecordedOp& op) const {
    auto at =
        std::upper_bound(host_waits_.begin(), host_waits_.end(), std::pair(op.launched, kNone));
    while (at != host_waits_.begin())
      if (const std::uint32_t awaited = (--at)->second; timeline_.ops[awaited].end <= op.start)
        return awaited;
    return std::nullopt;
  }

  // What is left of an op's start behind the last op that it waits for.
  struct Wait {
    Ns left = 0;
    std::optional<std::uint32_t> op;  // absent: it waits for none
    run::BoundReason reason = run::BoundReason::start;
  };

  Wait wait_of(const RecordedOp& op) const {
    Wait wait;
    const auto& stream = timeline_.streams[op.stream].ops;
    const auto own = std::lower_bound(stream.begin(), stream.end(), index(op));
    if (own != stream.begin())
      wait = {op.start - timeline_.ops[*(own - 1)].end, *(own - 1), run::BoundReason::stream};
    for (const std::uint32_t dep : op.deps)
      if (const Ns left = op.start - timeline_.ops[dep].end; !wait.op || left <= wait.left)
        wait = {left, dep, run::BoundReason::event};
    return wait;
  }

  bool is_held_by_host(const RecordedOp& op, const Wait& wait) const {
    if (!wait.op) return op.has_launch && op.launched > 0;
    return op.has_launch && op.start - op.launched < wait.left;
  }

  // The host was busy in a call whose op the device could have begun earlier. What others launched
  // behind it on a stream bounds that.
  void issue_late() {
    for (RecordedCall& call : timeline_.calls) {
      if (call.ops.empty()) continue;
      const RecordedOp& first = timeline_.ops[call.ops.front()];
      if (first.start - first.launched <= kLaunchLatency) continue;
      const Wait wait = wait_of(first);
      // A call that copies may wait for the device itself.
      const bool is_unexplained = wait.left > kLaunchLatency && !is_copy(call);
      if (!is_held_by_host(first, wait) && !is_unexplained) continue;
      Ns issued = std::min(call.end, first.start - kUsualLaunch);
      for (const std::uint32_t op : call.ops) issued = std::min(issued, next_launch(op));
      if (issued <= call.start || (wait.op && issued < timeline_.ops[*wait.op].end)) continue;
      call.issued = issued;
      for (const std::uint32_t op : call.ops) timeline_.ops[op].launched = issued;
    }
  }

  bool is_copy(const RecordedCall& call) const {
    return recording_.text(recording_.calls.name[call.row.row()]).find("Mem") !=
           std::string_view::npos;
  }

  // Of the op behind it on its stream, if another call launched that.
  Ns next_launch(std::uint32_t op) const {
    const auto& stream = timeline_.streams[timeline_.ops[op].stream].ops;
    const auto next = std::find_if(std::upper_bound(stream.begin(), stream.end(), op), stream.end(),
                                   [&](std::uint32_t at) { return timeline_.ops[at].has_launch; });
    if (next == stream.end()) return timeline_.length;
    const RecordedOp& behind = timeline_.ops[*next];
    const std::uint32_t own = timeline_.ops[op].call;
    if (behind.call == own) return timeline_.length;
    return behind.launched - (behind.call < own ? 1 : 0);
  }

  void explain(RecordedOp& op) {
    const Wait wait = wait_of(op);
    op.reason = wait.reason;
    op.bound_by = wait.op;
    op.lead = wait.left;
    if (is_held_by_host(op, wait)) {
      op.reason = run::BoundReason::host;
      op.bound_by = waited_for_before(op);
      op.launch_lead = op.start - op.launched;
      op.unexplained = std::max<Ns>(op.launch_lead - kLaunchLatency, 0);
      if (op.unexplained == 0) usual_launches_.push_back(op.launch_lead);
    } else if (wait.op) {
      const bool is_next = wait.reason == run::BoundReason::stream;
      op.unexplained = std::max<Ns>(op.lead - (is_next ? kDispatchGap : kLaunchLatency), 0);
      if (is_next && op.unexplained == 0) usual_gaps_.push_back(op.lead);
    } else {
      op.launch_lead = op.lead = op.unexplained = op.start;
      op.is_pinned = !op.has_launch && op.start > 0;
    }
  }

  // Of what did not hold an op back when it was recorded, but may if something else changes.
  void add_usual_leads() {
    const Ns launch = median_or(usual_launches_, kUsualLaunch);
    const Ns gap = median_or(usual_gaps_, kUsualGap);
    for (RecordedOp& op : timeline_.ops) {
      if (op.reason == run::BoundReason::host)
        op.lead = std::min(op.lead, gap);
      else if (op.reason != run::BoundReason::start)
        op.launch_lead = std::min(op.start - op.launched, launch);
    }
  }
  std::uint32_t index(const RecordedOp& op) const {
    return static_cast<std::uint32_t>(&op - timeline_.ops.data());
  }

  static constexpr std::uint32_t kNone = 0xffffffffU;
  const run::Recording& recording_;
  const Window& window_;
  Timeline timeline_;
  std::vector<run::CallRow> calls_;                       // by correlation
  std::vector<std::pair<Ns, std::uint32_t>> host_waits_;  // end of a blocking call, what it awaited
  std::vector<std::uint32_t> outer_;  // by row of the recording's calls: of the timeline's
  std::vector<Ns> usual_launches_, usual_gaps_;  // leads that need no explanation
};

}  // namespace

Timeline timeline_of(const run::Recording& recording, const Window& window) {
  return Joining(recording, window).run();
}

}  // namespace foregather::rebuild
