#include "slow_engine.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <stdexcept>

#include "sim/engine/host_loop.h"

namespace foregather::sim {
namespace {

constexpr Ns kNever = std::numeric_limits<Ns>::max();

struct Item {
  char kind = 'o';       // o op, r record, w wait
  std::uint32_t op = 0;  // row of Graph::ops
  std::uint32_t step = 0;
  std::size_t event = 0;
  Ns issued = 0;
  std::uint64_t launch = 0;  // on its stream
};

struct Running {
  Item item;
  bool transfers = false;
  std::int64_t work = 0;
};

struct SlowStream {
  std::deque<Item> queue;
  std::vector<Running> current;  // none or one
  std::vector<Ns> ends;          // of its launches, in order
  std::uint64_t launched = 0;
};

struct SlowThread {
  std::size_t at = 0;
  Ns time = 0;
  bool done = false;
  std::vector<std::size_t> handles;
  std::vector<Ns> performed;  // when each action of the section was
};

struct SlowClass {
  std::vector<SlowThread> threads;
  std::vector<SlowStream> streams;
  std::uint32_t step = 0;
  bool waits = false;  // for slower classes, before its next step
  Ns idle_since = 0;
  std::vector<std::vector<std::uint32_t>> collectives;  // by communicator: ops in launch order
  std::vector<std::size_t> started;                     // by communicator
  std::vector<bool> busy;                               // by communicator
  std::vector<std::vector<SlowTime>> times;
};

class SlowEngine {
 public:
  SlowEngine(const Graph& graph, std::span<const CostTable> prices, bool contention)
      : g_(graph), prices_(prices), contention_(contention), slots_(graph.classes.size()) {
    events_.push_back(0);
    for (std::size_t c = 0; c < graph.classes.size(); ++c) {
      const Program& program = graph.at(graph.classes[c].program);
      SlowClass& k = classes_.emplace_back();
      k.threads.resize(program.threads.size());
      k.streams.resize(program.streams.size());
      k.collectives.resize(graph.communicators.size());
      k.started.resize(graph.communicators.size());
      k.busy.resize(graph.communicators.size());
      k.times.emplace_back(program.ops.count);
      slots_[c].resize(program.events.count);
    }
  }

  std::vector<std::vector<std::vector<SlowTime>>> run(std::uint32_t steps) {
    steps_ = steps;
    while (true) {
      while (finish_ops() || take_heads() || act()) {
      }
      const Ns next = next_instant();
      if (next == kNever) break;
      progress(next - now_);
      now_ = next;
    }
    if (!all_issued()) throw std::runtime_error("slow engine: deadlock");
    std::vector<std::vector<std::vector<SlowTime>>> result;
    for (SlowClass& k : classes_) result.push_back(k.times);
    return result;
  }

 private:
  const Program& program(std::size_t c) const { return g_.at(g_.classes[c].program); }
  const Price& price(std::size_t c, std::uint32_t op) const {
    return prices_[g_.classes[c].hardware].prices[g_.ops[op].cost.row()];
  }
  const HostPrices& host(std::size_t c) const { return prices_[g_.classes[c].hardware].host; }
  SlowTime& time_of(std::size_t c, const Item& item) {
    return classes_[c].times[item.step][item.op - program(c).ops.first];
  }
  bool all_issued() const {
    return std::all_of(classes_.begin(), classes_.end(),
                       [&](const SlowClass& k) { return k.step > steps_; });
  }

  std::vector<std::size_t> members(std::size_t c, CommunicatorId comm) const {
    std::vector<std::size_t> found;
    const Group& group = g_.at(g_.at(comm).group);
    const auto ranks = g_.ranks_of(group.ranks);
    const auto is_in = [&](std::size_t k) {
      if (group.instances > 1) return true;
      for (std::uint32_t rank : g_.ranks_of(g_.classes[k].ranks))
        if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) return true;
      return false;
    };
    if (ranks.size() <= 1 || !is_in(c)) return {c};
    for (std::size_t k = 0; k < classes_.size(); ++k) {
      bool uses = false;
      const Range ops = program(k).ops;
      for (std::uint32_t row = ops.first; row < ops.end(); ++row)
        uses = uses || g_.ops[row].communicator == comm;
      if (uses && is_in(k)) found.push_back(k);
    }
    return found;
  }

  // --- devices ---------------------------------------------------------------------------------

  using Demand_ = std::array<std::uint16_t, kResources>;

  std::vector<std::uint32_t> fair(const std::vector<Demand_>& demands) const {
    std::vector<std::uint32_t> speeds(demands.size(), kWhole);
    if (!contention_) return speeds;
    for (std::size_t r = 0; r < kResources; ++r) {
      std::uint32_t total = 0;
      for (const auto& d : demands) total += d[r];
      if (total <= kWhole) continue;
      // Water filling: serve the modest first.
      std::vector<std::uint32_t> wishes;
      for (const auto& d : demands) wishes.push_back(d[r]);
      std::sort(wishes.begin(), wishes.end());
      std::uint32_t left = kWhole;
      std::uint32_t level = kWhole;
      for (std::size_t i = 0; i < wishes.size(); ++i) {
        const auto share = left / static_cast<std::uint32_t>(wishes.size() - i);
        if (wishes[i] > share) {
          level = share;
          break;
        }
        left -= wishes[i];
      }
      for (std::size_t i = 0; i < demands.size(); ++i)
        if (demands[i][r] > level)
          speeds[i] = std::min(speeds[i], std::max(1U, level * kWhole / demands[i][r]));
    }
    return speeds;
  }

  // Speed of every running op: [class][stream].
  std::vector<std::vector<std::uint32_t>> speeds() const {
    std::vector<std::vector<std::uint32_t>> own(classes_.size());
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      std::vector<Demand_> demands;
      std::vector<std::size_t> who;
      for (std::size_t s = 0; s < classes_[c].streams.size(); ++s) {
        const auto& current = classes_[c].streams[s].current;
        if (current.empty()) continue;
        Demand_ demand = price(c, current[0].item.op).demand;
        if (!current[0].transfers) demand = {demand[0]};
        demands.push_back(demand);
        who.push_back(s);
      }
      own[c].assign(classes_[c].streams.size(), kWhole);
      const auto shares = fair(demands);
      for (std::size_t i = 0; i < who.size(); ++i) own[c][who[i]] = shares[i];
    }
    auto result = own;
    for (std::size_t c = 0; c < classes_.size(); ++c)
      for (std::size_t s = 0; s < classes_[c].streams.size(); ++s)
        for (const auto& [k, t] : parts(c, s)) result[c][s] = std::min(result[c][s], own[k][t]);
    return result;
  }

  // The (class, stream) pairs that take part in the collective running on (c, s).
  std::vector<std::pair<std::size_t, std::size_t>> parts(std::size_t c, std::size_t s) const {
    std::vector<std::pair<std::size_t, std::size_t>> found;
    const auto& current = classes_[c].streams[s].current;
    if (current.empty() || !g_.ops[current[0].item.op].communicator) return found;
    const CommunicatorId comm = g_.ops[current[0].item.op].communicator;
    for (std::size_t k : members(c, comm))
      for (std::size_t t = 0; t < classes_[k].streams.size(); ++t) {
        const auto& other = classes_[k].streams[t].current;
        if (!other.empty() && g_.ops[other[0].item.op].communicator == comm &&
            classes_[k].started[comm.row()] == classes_[c].started[comm.row()])
          found.emplace_back(k, t);
      }
    return found;
  }

  void progress(Ns dt) {
    const auto rate = speeds();
    for (std::size_t c = 0; c < classes_.size(); ++c)
      for (std::size_t s = 0; s < classes_[c].streams.size(); ++s)
        for (Running& running : classes_[c].streams[s].current)
          if (running.transfers) running.work -= dt * rate[c][s];
  }

  bool finish_ops() {
    for (std::size_t c = 0; c < classes_.size(); ++c)
      for (SlowStream& stream : classes_[c].streams) {
        if (stream.current.empty() || !stream.current[0].transfers || stream.current[0].work > 0)
          continue;
        const Item item = stream.current[0].item;
        time_of(c, item).end = now_;
        stream.ends.push_back(now_);
        if (const CommunicatorId comm = g_.ops[item.op].communicator)
          classes_[c].busy[comm.row()] = false;
        stream.current.clear();
        return true;
      }
    return false;
  }

  bool take_heads() {
    for (std::size_t c = 0; c < classes_.size(); ++c)
      for (std::size_t s = 0; s < classes_[c].streams.size(); ++s)
        if (take_head(c, s)) return true;
    return false;
  }

  bool take_head(std::size_t c, std::size_t s) {
    SlowStream& stream = classes_[c].streams[s];
    if (!stream.current.empty() || stream.queue.empty()) return false;
    const Item item = stream.queue.front();
    if (item.kind == 'w' && events_[item.event] > now_) return false;
    if (item.kind != 'w' && item.issued > now_) return false;
    if (item.kind == 'r') events_[item.event] = now_;
    if (item.kind == 'o' && !begin(c, s, item)) return false;
    stream.queue.pop_front();
    return true;
  }

  bool begin(std::size_t c, std::size_t s, const Item& item) {
    const Op& op = g_.ops[item.op];
    for (OpId dep : g_.deps_of(op)) {
      const Ns end = classes_[c].times[item.step][dep.row() - program(c).ops.first].end;
      if (end < 0 || end > now_) return false;
    }
    SlowClass& k = classes_[c];
    if (op.communicator) {
      const std::size_t comm = op.communicator.row();
      if (k.busy[comm] || k.collectives[comm][k.started[comm]] != item.op) return false;
      k.busy[comm] = true;
      ++k.started[comm];
    }
    std::int64_t duration = price(c, item.op).duration;
    if (!op.communicator)
      duration = duration / 1'000'000 * g_.classes[c].compute_scale_ppm +
                 duration % 1'000'000 * g_.classes[c].compute_scale_ppm / 1'000'000;
    k.streams[s].current = {{item, true, duration * kWhole}};
    time_of(c, item).issued = item.issued;
    time_of(c, item).start = time_of(c, item).transfer = now_;
    if (!op.communicator) return true;
    const auto all = members(c, op.communicator);
    if (all.size() == 1) return true;
    const auto here = parts(c, s);
    if (here.size() < all.size()) {
      k.streams[s].current[0].transfers = false;
      return true;
    }
    std::int64_t longest = 0;
    for (const auto& [m, t] : here)
      longest = std::max(longest, price(m, classes_[m].streams[t].current[0].item.op).duration);
    for (const auto& [m, t] : here) {
      Running& part = classes_[m].streams[t].current[0];
      part.transfers = true;
      part.work = longest * kWhole;
      time_of(m, part.item).transfer = now_;
    }
    return true;
  }

  // --- hosts -----------------------------------------------------------------------------------

  // The next action of the first thread that is due and can go on.
  bool act() {
    if (all_issued()) return false;
    for (std::size_t c = 0; c < classes_.size(); ++c)
      for (SlowThread& thread : classes_[c].threads) {
        if (thread.done || thread.time > now_) continue;
        if (enqueue_waits(c, thread)) return true;
        if (!can_go(c, thread)) continue;
        perform(c, thread);
        return true;
      }
    return false;
  }

  const std::vector<Action>& actions(std::size_t c, const SlowThread& thread) const {
    const auto index = static_cast<std::size_t>(&thread - classes_[c].threads.data());
    return program(c).threads[index].sections[std::min<std::size_t>(classes_[c].step, 2)];
  }

  bool happened(std::size_t event) const { return events_[event] <= now_; }

  // A wait is for events as they are when the thread gets there; a stream or device wait records
  // its own.
  bool enqueue_waits(std::size_t c, SlowThread& thread) {
    const auto& list = actions(c, thread);
    if (thread.at == list.size() || !thread.handles.empty()) return false;
    const Action& action = list[thread.at];
    if (action.kind == ActionKind::host_wait_event)
      thread.handles.push_back(slots_[c][action.a - program(c).events.first]);
    for (std::size_t s = 0; s < classes_[c].streams.size(); ++s)
      if (action.kind == ActionKind::host_wait_device ||
          (action.kind == ActionKind::host_wait_stream && s == action.stream.row()))
        thread.handles.push_back(record(c, s, thread.time));
    return !thread.handles.empty();
  }

  bool can_go(std::size_t c, SlowThread& thread) {
    const auto& list = actions(c, thread);
    if (thread.at == list.size()) return true;
    const Action& action = list[thread.at];
    if (action.kind == ActionKind::launch) {
      const SlowStream& stream = classes_[c].streams[g_.ops[action.a].stream.row()];
      const std::uint32_t depth = host(c).launch_queue;
      return depth == 0 || stream.launched < depth || stream.launched - depth < stream.ends.size();
    }
    if (!thread.handles.empty())
      return std::all_of(thread.handles.begin(), thread.handles.end(),
                         [&](std::size_t event) { return happened(event); });
    if (action.kind == ActionKind::host_wait_action) {
      const SlowThread& target = classes_[c].threads[action.a];
      return target.performed.size() > action.b && target.performed[action.b] <= now_;
    }
    return true;
  }

  std::size_t record(std::size_t c, std::size_t s, Ns time) {
    events_.push_back(kNever);
    Item item;
    item.kind = 'r';
    item.event = events_.size() - 1;
    item.issued = time;
    classes_[c].streams[s].queue.push_back(item);
    return item.event;
  }

  void wait_until(std::size_t c, SlowThread& thread, Ns time) {
    if (time > thread.time) thread.time = time + host(c).synchronize;
  }

  void perform(std::size_t c, SlowThread& thread) {
    SlowClass& k = classes_[c];
    const auto& list = actions(c, thread);
    if (thread.at == list.size()) {
      end_thread(c, thread);
      return;
    }
    const Action& action = list[thread.at];
    switch (action.kind) {
      case ActionKind::launch: {
        const Op& op = g_.ops[action.a];
        SlowStream& stream = k.streams[op.stream.row()];
        const std::uint32_t depth = host(c).launch_queue;
        if (depth != 0 && stream.launched >= depth)
          thread.time = std::max(thread.time, stream.ends[stream.launched - depth]);
        thread.time += price(c, action.a).host;
        Item item;
        item.op = action.a;
        item.step = k.step;
        item.issued = thread.time;
        item.launch = stream.launched++;
        stream.queue.push_back(item);
        if (op.communicator) k.collectives[op.communicator.row()].push_back(action.a);
        break;
      }
      case ActionKind::alloc: thread.time += host(c).alloc; break;
      case ActionKind::free:
      case ActionKind::release: thread.time += host(c).free; break;
      case ActionKind::record:
        thread.time += host(c).record;
        slots_[c][action.a - program(c).events.first] = record(c, action.stream.row(), thread.time);
        break;
      case ActionKind::wait: {
        thread.time += host(c).wait;
        Item item;
        item.kind = 'w';
        item.event = slots_[c][action.a - program(c).events.first];
        k.streams[action.stream.row()].queue.push_back(item);
        break;
      }
      case ActionKind::host_wait_event:
      case ActionKind::host_wait_stream:
      case ActionKind::host_wait_device: {
        Ns last = 0;
        for (std::size_t event : thread.handles) last = std::max(last, events_[event]);
        thread.handles.clear();
        wait_until(c, thread, last);
        break;
      }
      case ActionKind::host_wait_action: {
        thread.time = std::max(thread.time, k.threads[action.a].performed[action.b]);
        break;
      }
      case ActionKind::host_delay: thread.time += action.a; break;
      default: break;
    }
    ++thread.at;
    thread.performed.push_back(thread.time);
  }

  void end_thread(std::size_t c, SlowThread& thread) {
    SlowClass& k = classes_[c];
    thread.done = true;
    Ns last = 0;
    for (const SlowThread& each : k.threads) {
      if (!each.done) return;
      last = std::max(last, each.time);
    }
    ++k.step;
    k.times.emplace_back(program(c).ops.count);
    k.waits = true;
    k.idle_since = last;
    std::uint32_t slowest = k.step;
    for (const SlowClass& each : classes_) slowest = std::min(slowest, each.step);
    for (std::size_t other = 0; other < classes_.size(); ++other)
      if (classes_[other].waits && classes_[other].step <= slowest + kMostStepsAhead)
        begin_step(other, std::max(last, classes_[other].idle_since));
  }

  void begin_step(std::size_t c, Ns time) {
    SlowClass& k = classes_[c];
    k.waits = false;
    for (SlowThread& each : k.threads) {
      each.at = 0;
      each.performed.clear();
      each.done = false;
      each.time = time;
    }
    if (k.step > 0)
      for (auto& thread : k.threads) thread.time += g_.classes[c].start_delay;
  }

  Ns next_instant() {
    Ns next = kNever;
    const auto rate = speeds();
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      for (std::size_t s = 0; s < classes_[c].streams.size(); ++s) {
        const SlowStream& stream = classes_[c].streams[s];
        if (!stream.current.empty() && stream.current[0].transfers)
          next = std::min(next, now_ + (stream.current[0].work + rate[c][s] - 1) / rate[c][s]);
        if (stream.current.empty() && !stream.queue.empty() && stream.queue.front().issued > now_)
          next = std::min(next, stream.queue.front().issued);
      }
      if (!all_issued())
        for (const SlowThread& thread : classes_[c].threads)
          if (!thread.done && thread.time > now_) next = std::min(next, thread.time);
    }
    return next;
  }

  const Graph& g_;
  std::span<const CostTable> prices_;
  bool contention_;
  std::uint32_t steps_ = 0;
  Ns now_ = 0;
  std::vector<SlowClass> classes_;
  std::vector<Ns> events_;  // when they happened
  std::vector<std::vector<std::size_t>> slots_;
};

}  // namespace

std::vector<std::vector<std::vector<SlowTime>>> simulate_slowly(const Graph& graph,
                                                                std::span<const CostTable> prices,
                                                                bool contention,
                                                                std::uint32_t steps) {
  return SlowEngine(graph, prices, contention).run(steps);
}

}  // namespace foregather::sim
