#include "tests/bench/plain_engines.h"

#include <algorithm>
#include <deque>
#include <queue>

namespace foregather::bench {
namespace {

// A stream with what was enqueued and has not begun.
struct QueuedWork {
  ActionKind kind = ActionKind::launch;
  std::uint32_t event = 0;
  std::size_t row = 0;  // of a launch: in `times`
  Ns duration = 0;
};

class HeapSimulation {
 public:
  HeapSimulation(const FlatSchedule& schedule, std::vector<PlainTime>& times)
      : schedule_(schedule),
        times_(times),
        queues_(schedule.streams),
        is_busy_(schedule.streams),
        versions_(schedule.events),
        happened_(schedule.events),
        waiting_(schedule.events) {}

  Ns run() {
    heap_.push({0, 0, kHost});
    while (!heap_.empty()) {
      const Event event = heap_.top();
      heap_.pop();
      now_ = event.time;
      if (event.who == kHost) {
        perform();
      } else {
        is_busy_[event.who] = false;
        advance(event.who);
      }
    }
    return device_end_;
  }

 private:
  static constexpr std::uint32_t kHost = ~0U;
  struct Event {
    Ns time = 0;
    std::uint64_t number = 0;  // of equal times, the first
    std::uint32_t who = kHost;
    bool operator<(const Event& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  // The host has spent what the action before this one takes.
  void perform() {
    if (next_ > 0) enqueue(next_ - 1);
    if (next_ == schedule_.kind.size()) return;
    heap_.push({now_ + schedule_.host[next_], ++number_, kHost});
    ++next_;
  }

  void enqueue(std::size_t action) {
    const std::uint32_t stream = schedule_.stream[action];
    QueuedWork work{schedule_.kind[action], schedule_.event[action], 0, 0};
    if (work.kind == ActionKind::launch) {
      work.row = times_.size();
      work.duration = schedule_.duration[action];
      times_.push_back({now_, 0, 0});
    } else if (work.kind == ActionKind::record) {
      work.row = ++versions_[work.event];
    } else {
      work.row = versions_[work.event];
    }
    queues_[stream].push_back(work);
    advance(stream);
  }

  void advance(std::uint32_t stream) {
    auto& queue = queues_[stream];
    while (!queue.empty() && !is_busy_[stream]) {
      const QueuedWork work = queue.front();
      if (work.kind == ActionKind::wait && happened_[work.event] < work.row) {
        waiting_[work.event].push_back(stream);
        return;
      }
      queue.pop_front();
      if (work.kind == ActionKind::launch) {
        times_[work.row].start = now_;
        times_[work.row].end = now_ + work.duration;
        device_end_ = std::max(device_end_, now_ + work.duration);
        is_busy_[stream] = true;
        heap_.push({now_ + work.duration, ++number_, stream});
      } else if (work.kind == ActionKind::record) {
        happened_[work.event] = work.row;
        const std::vector<std::uint32_t> woken = std::move(waiting_[work.event]);
        waiting_[work.event].clear();
        for (const std::uint32_t other : woken) advance(other);
      }
    }
  }

  const FlatSchedule& schedule_;
  std::vector<PlainTime>& times_;
  std::priority_queue<Event> heap_;
  std::vector<std::deque<QueuedWork>> queues_;
  std::vector<bool> is_busy_;
  std::vector<std::size_t> versions_, happened_;  // by event: records enqueued, and happened
  std::vector<std::vector<std::uint32_t>> waiting_;
  std::size_t next_ = 0;
  std::uint64_t number_ = 0;
  Ns now_ = 0, device_end_ = 0;
};

}  // namespace

FlatSchedule flat_schedule(const Graph& graph, const sim::CostTable& prices) {
  FlatSchedule flat;
  const Program& program = graph.programs.front();
  flat.streams = static_cast<std::uint32_t>(program.streams.size());
  flat.events = program.events.count;
  for (const Action& action : program.threads.front().actions(Section::first)) {
    const bool is_launch = action.kind == ActionKind::launch;
    const Op op = is_launch ? graph.ops[action.a] : Op{};
    const sim::Price price = is_launch ? prices.prices[op.cost.row()] : sim::Price{};
    flat.kind.push_back(action.kind);
    flat.stream.push_back(static_cast<std::uint8_t>((is_launch ? op.stream : action.stream).row()));
    flat.event.push_back(is_launch ? 0 : action.a - program.events.first);
    flat.host.push_back(is_launch                           ? price.host
                        : action.kind == ActionKind::record ? prices.host.record
                                                            : prices.host.wait);
    flat.duration.push_back(price.duration);
  }
  return flat;
}

Ns heap_simulation(const FlatSchedule& schedule, std::vector<PlainTime>& times) {
  times.clear();
  return HeapSimulation(schedule, times).run();
}

Ns list_simulation(const FlatSchedule& schedule, std::vector<PlainTime>& times) {
  times.clear();
  std::vector<Ns> ready(schedule.streams), happened(schedule.events);
  Ns host = 0;
  for (std::size_t i = 0; i < schedule.kind.size(); ++i) {
    host += schedule.host[i];
    Ns& stream = ready[schedule.stream[i]];
    switch (schedule.kind[i]) {
      case ActionKind::launch: {
        const Ns start = std::max(host, stream);
        stream = start + schedule.duration[i];
        times.push_back({host, start, stream});
        break;
      }
      case ActionKind::record: happened[schedule.event[i]] = std::max(host, stream); break;
      default: stream = std::max(stream, happened[schedule.event[i]]);
    }
  }
  return *std::max_element(ready.begin(), ready.end());
}

}  // namespace foregather::bench
