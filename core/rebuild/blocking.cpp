#include "core/rebuild/blocking.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

namespace foregather::rebuild {
namespace {

/// Traces in whole microseconds: an end may be that much later than the call that waited for it.
constexpr Ns kWaitRounding = 2 * kMicrosecond;
/// A launch that takes longer does more than to hand over.
constexpr Ns kLongLaunch = 20 * kMicrosecond;
/// Half of what CUDA's queue takes: 1,134 to 1,141 kernels were in it where launches of an H100
/// waited (other entries take places, too).
constexpr std::size_t kManyQueued = 512;
/// How soon a call that had to wait for the device returns once that is idle (assumed).
constexpr Ns kReturns = 100 * kMicrosecond;

class Finding {
 public:
  Finding(const run::Recording& recording, Timeline& timeline)
      : recording_(recording),
        timeline_(timeline),
        launched_(timeline.ops.size(), std::numeric_limits<Ns>::min()),
        by_end_(timeline.ops.size()),
        of_thread_(timeline.threads.size()) {
    for (const RecordedCall& call : timeline.calls)
      for (const std::uint32_t op : call.ops) launched_[op] = called(call);
    for (std::uint32_t i = 0; i < by_end_.size(); ++i) by_end_[i] = i;
    by_launch_ = by_end_;
    std::ranges::sort(by_end_, {}, [&](std::uint32_t op) { return std::pair(end(op), op); });
    std::ranges::sort(by_launch_, {},
                      [&](std::uint32_t op) { return std::pair(launched_[op], op); });
    for (std::uint32_t i = 0; i < timeline.ops.size(); ++i) {
      Queue& queue = queues_[device(i)];
      queue.launches.push_back(launched_[i]);
      queue.ends.push_back(end(i));
    }
    for (auto& [name, queue] : queues_) {
      std::ranges::sort(queue.launches);
      std::ranges::sort(queue.ends);
    }
    for (const RecordedStream& stream : timeline.streams) {
      Ns latest = std::numeric_limits<Ns>::min();
      auto& launches = launches_.emplace_back();
      for (const std::uint32_t op : stream.ops)
        launches.push_back(latest = std::max(latest, launched_[op]));
    }
    const run::SyncColumns& rows = recording.syncs;
    for (std::uint32_t i = 0; i < rows.size(); ++i)
      if (rows.correlation[i]) records_.emplace(rows.correlation[i].row(), i);
  }

  void run() {
    std::vector<bool> has_recorded(timeline_.threads.size());  // an event, in its last call
    for (RecordedCall& call : timeline_.calls) {
      while (next_ < by_launch_.size() && launched_[by_launch_[next_]] < called(call))
        if (const std::uint32_t op = by_launch_[next_++]; !last_ || end(op) >= end(*last_))
          last_ = op;
      switch (call.kind) {
        case CallClass::synchronize_device: synchronize_device(call); break;
        case CallClass::synchronize_stream:
          synchronize(call);
          if (!call.awaited) call.awaited = done(call, of_stream(call));
          break;
        case CallClass::synchronize_event:
          synchronize(call);
          if (!call.awaited && has_recorded[call.thread])
            call.awaited = done(call, of_thread_[call.thread]);
          break;
        case CallClass::may_block: block(call); break;
        default: launch(call);
      }
      has_recorded[call.thread] = call.kind == CallClass::record_event;
      if (!call.ops.empty()) of_thread_[call.thread] = call.ops.back();
    }
  }

 private:
  using MaybeOp = std::optional<std::uint32_t>;

  // The timeline's own times of calls before the first device work are all 0.
  Ns called(const RecordedCall& call) const { return recording_.calls.start[call.row.row()]; }
  Ns end(std::uint32_t op) const { return timeline_.ops[op].end; }
  StringId device(std::uint32_t op) const {
    return recording_.lanes[timeline_.streams[timeline_.ops[op].stream].lane.row()].process;
  }

  // The op that ended last within the call, of those launched before that `matches` holds for.
  template <class Matches>
  MaybeOp last_within(const RecordedCall& call, Ns until, const Matches& matches) const {
    auto at =
        std::ranges::upper_bound(by_end_, until, {}, [&](std::uint32_t op) { return end(op); });
    while (at != by_end_.begin() && end(*--at) > call.start)
      if (launched_[*at] <= called(call) && matches(*at)) return *at;
    return std::nullopt;
  }

  void synchronize(RecordedCall& call) const {
    call.awaited = last_within(call, call.end + kWaitRounding, [](std::uint32_t) { return true; });
  }

  void synchronize_device(RecordedCall& call) const {
    synchronize(call);
    if (!call.awaited) call.awaited = done(call, last_);
    call.awaits_device = call.awaited && end(*call.awaited) == end(*last_);
  }

  // The op, if it had ended when the call returned.
  MaybeOp done(const RecordedCall& call, MaybeOp op) const {
    return op && end(*op) <= call.end + kWaitRounding ? op : std::nullopt;
  }

  // The last op launched on the stream that the tool's record names, else by the thread.
  MaybeOp of_stream(const RecordedCall& call) const {
    const run::CorrelationId id = recording_.calls.correlation[call.row.row()];
    const auto record = id ? records_.find(id.row()) : records_.end();
    if (record == records_.end()) return of_thread_[call.thread];
    MaybeOp last;
    for (std::size_t s = 0; s < timeline_.streams.size(); ++s) {
      const RecordedStream& stream = timeline_.streams[s];
      if (stream.lane != recording_.syncs.lane[record->second]) continue;
      const auto later = std::ranges::upper_bound(launches_[s], called(call));
      if (later == launches_[s].begin()) continue;
      const std::uint32_t op =
          stream.ops[static_cast<std::size_t>(later - launches_[s].begin()) - 1];
      if (!last || end(op) > end(*last)) last = op;
    }
    return last;
  }

  void block(RecordedCall& call) const {
    if (!last_ || end(*last_) <= call.start || end(*last_) > call.end) return;
    if (call.end - end(*last_) > kReturns) return;
    call.awaited = last_;
    call.awaits_device = true;
  }

  void launch(RecordedCall& call) const {
    if (call.ops.empty()) {
      if (is_copy(call)) block(call);
      return;
    }
    const std::uint32_t own =
        *std::find_if(call.ops.rbegin(), call.ops.rend(),
                      [&](std::uint32_t op) { return timeline_.ops[op].has_launch; });
    if (end(own) > call.start && end(own) <= call.end)
      call.awaited = own;
    else if (call.end - call.start > kLongLaunch && queued(call, device(own)) >= kManyQueued)
      call.awaited =
          last_within(call, call.end, [&](std::uint32_t op) { return device(op) == device(own); });
  }

  bool is_copy(const RecordedCall& call) const {
    const std::string_view name = recording_.text(recording_.calls.name[call.row.row()]);
    return name.find("emcpy") != std::string_view::npos;
  }

  // Ops of the device that were launched and had not ended when the call began.
  std::size_t queued(const RecordedCall& call, StringId device) const {
    const Queue& queue = queues_.at(device);
    const auto launched = std::ranges::lower_bound(queue.launches, called(call));
    const auto ended = std::ranges::upper_bound(queue.ends, call.start);
    const auto count = (launched - queue.launches.begin()) - (ended - queue.ends.begin());
    return static_cast<std::size_t>(std::max<std::ptrdiff_t>(count, 0));
  }

  struct Queue {
    std::vector<Ns> launches, ends;  // each in order
  };

  const run::Recording& recording_;
  Timeline& timeline_;
  std::vector<Ns> launched_;               // by op, in the recording's time
  std::vector<std::vector<Ns>> launches_;  // by stream: the latest so far, by op
  std::vector<std::uint32_t> by_end_, by_launch_;
  std::map<StringId, Queue> queues_;                          // by device
  std::unordered_map<std::uint32_t, std::uint32_t> records_;  // of syncs, by correlation
  std::size_t next_ = 0;                                      // of by_launch_
  MaybeOp last_;                                              // to end, of those before it
  std::vector<MaybeOp> of_thread_;                            // launched last
};

}  // namespace

void find_blocking_calls(const run::Recording& recording, Timeline& timeline) {
  Finding(recording, timeline).run();
}

}  // namespace foregather::rebuild
