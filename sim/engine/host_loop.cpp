#include "sim/engine/host_loop.h"

#include <algorithm>
#include <utility>

#include "sim/cost/rounding.h"
#include "sim/engine/list_device.h"
#include "sim/engine/shared_device.h"

namespace foregather::sim {
namespace {

constexpr std::size_t to_index(ActionKind kind) { return static_cast<std::size_t>(kind); }

Ns delay_of(const Action& action, const HostPrices& prices) {
  return prices.delays == 1 ? action.a : round_ns(action.a * prices.delays);
}

}  // namespace

// The allocator's view of device time while a thread calls it.
template <class Device>
struct HostLoop<Device>::Clock final : alloc::EventClock {
  Clock(HostLoop& owner, std::uint16_t rank_class) : loop(owner), c(rank_class) {}

  alloc::EventToken record(alloc::StreamId stream) override {
    return {loop.device_.record(c, stream.row(), caller->time, caller->last_wait)};
  }
  bool query(alloc::EventToken token) override {
    loop.device_.advance(caller->time);
    const EventRecord& event = loop.device_.event(static_cast<EventHandle>(token.value));
    return event.done && event.time <= caller->time;
  }
  void synchronize(alloc::EventToken token) override {
    const EventRecord& event = loop.device_.event(static_cast<EventHandle>(token.value));
    while (!event.done && loop.device_.next_time() != kForever)
      loop.device_.advance(loop.device_.next_time());
    if (!event.done) ++loop.unresolved_;
    if (event.done && event.time > caller->time) {
      caller->time = event.time;
      if (event.by.exists()) caller->last_wait = event.by;
    }
  }

  HostLoop& loop;
  std::uint16_t c;
  Thread* caller = nullptr;
};

template <class Device>
HostLoop<Device>::HostLoop(const Graph& graph, std::span<const LaunchRows> rows,
                           std::span<const CostTable> prices, const EngineOptions& options,
                           std::span<const std::shared_ptr<MemoryPlan>> plans,
                           const ProgramRepeats* repeats, Device& device)
    : graph_(graph), rows_(rows), options_(options), device_(device), repeats_(repeats) {
  for (std::uint16_t c = 0; c < graph.classes.size(); ++c) {
    auto run = std::make_unique<ClassRun>();
    run->rank_class = c;
    run->program = &graph.at(graph.classes[c].program);
    run->prices = &prices[graph.classes[c].hardware].host;
    run->quiet.fill(-1);
    run->quiet[to_index(ActionKind::alloc)] = run->prices->alloc;
    run->quiet[to_index(ActionKind::free)] = run->prices->free;
    run->quiet[to_index(ActionKind::mark)] = 0;
    run->first_op = run->program->ops.first;
    run->first_event = run->program->events.first;
    run->events.assign(run->program->events.count, 0);
    run->clock = std::make_unique<Clock>(*this, c);
    run->plan = plans[c].get();
    if (options.memory && run->plan == nullptr)
      run->memory =
          std::make_unique<ClassMemory>(graph, *run->program, options.alloc, options.capacity,
                                        *run->clock, options.record_memory);
    run->threads.resize(run->program->threads.size());
    for (std::uint16_t t = 0; t < run->threads.size(); ++t) {
      run->threads[t].rank_class = c;
      run->threads[t].index = t;
      threads_.push_back(&run->threads[t]);
    }
    runs_.push_back(std::move(run));
  }
}

template <class Device>
HostLoop<Device>::~HostLoop() = default;

// The device is played no further than the earliest thread of all. Where no allocator looks at its
// time, classes meet in collectives alone, and it keeps the order of each class's launches: then
// threads take turns action by action only within a class. Up to the end of the target step: what
// is launched behind it must not depend on who ran ahead.
template <class Device>
auto HostLoop<Device>::next_turn() const -> Turn {
  Turn turn;
  for (Thread* thread : threads_) {
    if (thread->state != State::ready) continue;
    if (turn.thread == nullptr) {
      turn.thread = thread;
    } else if (thread->time < turn.thread->time) {
      turn.others = turn.thread->time;
      turn.thread = thread;
      turn.is_sole = false;
    } else {
      turn.others = std::min(turn.others, thread->time);
      turn.is_sole = false;
    }
  }
  if (turn.is_sole || in_turns_ != 0) return turn;
  const ClassRun& run = *runs_[turn.thread->rank_class];
  // What other classes have yet to do may wake a blocked thread of this one.
  if (run.step > target_ || run.blocked != 0) return turn;
  turn.others = kForever;
  for (const Thread& other : run.threads)
    if (&other != turn.thread && other.state == State::ready)
      turn.others = std::min(turn.others, other.time);
  return turn;
}

template <class Device>
Status HostLoop<Device>::issue(std::uint32_t target) {
  is_refused_ = target == target_ && settled_ != 0;
  target_ = target;
  settled_ = 0;
  begin_sections();
  while (!finished()) {
    const Turn turn = next_turn();
    if (turn.thread != nullptr ? !turn.is_sole || blocked_ != 0 : blocked_ != 1) land();
    if (blocked_ != 0 || turn.thread == nullptr) {
      const Ns next = device_.next_time();
      if (next != kForever && (turn.thread == nullptr || next <= turn.thread->time)) {
        if (turn.thread != nullptr || !let_device_go_on()) device_.advance(next);
        wake();
        continue;
      }
      if (turn.thread == nullptr) return tl::unexpected(deadlock());
    }
    go_on(turn);
    if (oom_ || settled_ != 0) return {};
    if (blocked_ != 0) wake();
  }
  land();
  return {};
}

template <class Device>
void HostLoop<Device>::go_on(const Turn& turn) {
  Thread& thread = *turn.thread;
  ClassRun& run = *runs_[thread.rank_class];
  const std::uint16_t c = thread.rank_class;
  const LaunchRows rows = rows_[c];
  const HostPrices& prices = *run.prices;
  ClassMemory* const memory = run.memory.get();
  run.clock->caller = &thread;
  if (std::exchange(latest_, &thread) != &thread) ++switches_;
  const Ns others = turn.others;
  // Launches decide what a device does that needs no time; an allocator plays it when it asks.
  const bool moves_device = !Device::needs_time || memory != nullptr;
  const auto may_wake = [&](Ns now) {
    return blocked_ != 0 && (moves_device || device_.next_time() <= now);
  };
  const Action* at = thread.at;
  const Action* const stop = thread.stop;
  Ns time = thread.time;
  // Nobody comes in between.
  const bool is_alone = memory == nullptr && others == kForever && blocked_ == 0;
  // Strictly earlier: at equal times the lower class and thread goes first. After the first action
  // that a blocked thread could be woken by, it is its turn.
  do {
    if (is_alone) {
      const Action* const from = at;
      for (Ns cost = 0; at != stop && (cost = run.quiet[to_index(at->kind)]) >= 0; ++at)
        time += cost;
      if (at != from) thread.last_end = time;
    }
    if (at == stop) {
      thread.at = at;
      thread.time = time;
      return reach_stop(thread);
    }
    const Action action = *at;
    switch (action.kind) {
      case ActionKind::launch: {
        const std::uint32_t local = action.a - run.first_op;
        const LaunchRow& row = rows[local];
        const EventRecord* place = &device_.place(c, row.stream);
        if (!place->done && turn.is_sole && blocked_ == 0) {
          device_.make_places(wanted_places(run, at, stop));
          place = &device_.place(c, row.stream);
        }
        if (!place->done || place->time > time) {
          thread.at = at;
          thread.time = time;
          if (!place->done) return block(run, thread);
          thread.time = time = place->time;
          thread.last_wait = place->by;
          if (time >= others || may_wake(time)) return;  // they may come first now
        }
        time += rows.price(row).host;
        if (memory != nullptr) memory->launched(action.a);
        device_.launch(c, local, time, thread.last_wait, run.step);
        break;
      }
      case ActionKind::record:
        time += prices.record;
        run.events[action.a - run.first_event] =
            device_.record(c, action.stream.row(), time, thread.last_wait);
        break;
      case ActionKind::wait: {
        time += prices.wait;
        const EventHandle event = run.events[action.a - run.first_event];
        if (event != 0) device_.wait(c, action.stream.row(), event, time);
        break;
      }
      case ActionKind::mark: break;
      case ActionKind::alloc:
        time += prices.alloc;
        if (memory == nullptr) break;
        thread.time = time;
        if (!memory->alloc(action.a, action.stream, time)) {
          thread.at = at;
          return run_out(run, thread, action.a);
        }
        if (memory->driver_calls() != nullptr) charge(run, thread, *run.memory->driver_calls());
        time = thread.time;
        break;
      case ActionKind::free:
        if (memory != nullptr) {
          thread.time = time;
          memory->free(action.a, time);
          if (memory->driver_calls() != nullptr) charge(run, thread, *run.memory->driver_calls());
          time = thread.time;
        }
        time += prices.free;
        break;
      default:
        thread.at = at;
        thread.time = time;
        if (!perform(thread)) return;
        time = thread.time;
    }
    ++at;
    thread.last_end = time;
  } while (time < others && !may_wake(time));
  thread.at = at;
  thread.time = time;
}

// Ends the section, lets those go on that waited for the action just performed, or makes the next
// driver call.
template <class Device>
void HostLoop<Device>::reach_stop(Thread& thread) {
  ClassRun& run = *runs_[thread.rank_class];
  if (thread.boundary != nullptr && thread.at == thread.boundary) reach_boundary(run, thread);
  if (thread.at == thread.watched) {
    thread.watched = thread.end;
    for (Thread& other : run.threads) {
      if (other.state != State::waiting || other.at->a != thread.index) continue;
      if (!wait_action(run, other, *other.at)) continue;
      other.state = State::ready;
      other.last_end = other.time;
      ++other.at;
    }
  }
  if (thread.at == thread.end) {
    if (next_turn().thread == &thread) end_thread(thread);
    return;
  }
  const auto here = static_cast<std::uint32_t>(thread.at - thread.begin);
  if (run.planned != nullptr && run.planned->failure &&
      thread.index == run.planned->failure->thread && here == run.planned->failure->action)
    return run_out(run, thread, thread.at->a);
  if (thread.next_call != thread.last_call && here == thread.next_call->action)
    charge_planned(run, thread);
  set_stop(run, thread);
}

template <class Device>
void HostLoop<Device>::set_stop(ClassRun& run, Thread& thread) {
  thread.stop = thread.watched;
  if (thread.boundary != nullptr) thread.stop = std::min(thread.stop, thread.boundary);
  if (thread.next_call != thread.last_call)
    thread.stop = std::min(thread.stop, thread.begin + thread.next_call->action);
  if (run.planned != nullptr && run.planned->failure &&
      thread.index == run.planned->failure->thread)
    thread.stop = std::min(thread.stop, thread.begin + run.planned->failure->action);
}

template <class Device>
void HostLoop<Device>::charge_planned(ClassRun& run, Thread& thread) {
  const ActionKind kind = thread.at->kind;
  if (kind == ActionKind::alloc) thread.time += run.prices->alloc;
  run.clock->caller = &thread;
  const alloc::DriverCalls& calls = thread.next_call->calls;
  charge(run, thread, calls);
  ++thread.periods.calls;
  if (calls.frees != 0 || calls.unmaps != 0 || calls.event_records != 0) thread.periods.alike = 0;
  if (kind == ActionKind::free || kind == ActionKind::release) thread.time += run.prices->free;
  ++thread.next_call;
  ++thread.at;
  thread.last_end = thread.time;
}

template <class Device>
void HostLoop<Device>::block(ClassRun& run, Thread& thread) {
  thread.state = State::blocked;
  ++run.blocked;
  ++blocked_;
}

template <class Device>
bool HostLoop<Device>::perform(Thread& thread) {
  ClassRun& run = *runs_[thread.rank_class];
  run.clock->caller = &thread;
  const Action& action = *thread.at;
  switch (action.kind) {
    case ActionKind::release:
      if (run.memory) {
        run.memory->release(action.a, thread.time);
        if (run.memory->driver_calls() != nullptr) charge(run, thread, *run.memory->driver_calls());
      }
      thread.time += run.prices->free;
      break;
    case ActionKind::record_stream:
      if (run.memory) run.memory->record_stream(action.a, action.stream);
      break;
    case ActionKind::host_wait_event:
      // The recording that is the latest now; later ones do not matter.
      if (thread.handles.empty()) thread.handles = {run.events[action.a - run.first_event]};
      if (!wait_all(run, thread)) return block(run, thread), false;
      break;
    case ActionKind::host_wait_stream:
      if (thread.handles.empty())
        thread.handles = {
            device_.record(thread.rank_class, action.stream.row(), thread.time, thread.last_wait)};
      if (!wait_all(run, thread)) return block(run, thread), false;
      break;
    case ActionKind::host_wait_device:
      if (thread.handles.empty())
        for (std::uint32_t s = 0; s < run.program->streams.size(); ++s)
          thread.handles.push_back(
              device_.record(thread.rank_class, s, thread.time, thread.last_wait));
      if (!wait_all(run, thread)) return block(run, thread), false;
      break;
    case ActionKind::host_wait_action:
      if (!wait_action(run, thread, action)) {
        thread.state = State::waiting;
        Thread& target = run.threads[action.a];
        target.watched = std::min(target.watched, target.begin + action.b + 1);
        set_stop(run, target);
        return false;
      }
      break;
    case ActionKind::host_delay: thread.time += delay_of(action, *run.prices); break;
    case ActionKind::empty_cache:
      if (run.memory) {
        run.memory->empty_cache(thread.time);
        charge(run, thread, *run.memory->driver_calls());
      }
      break;
    default: break;  // go_on() performs the others
  }
  return true;
}

// Host time of driver calls. A cudaFree waits for the whole device first.
template <class Device>
void HostLoop<Device>::charge(ClassRun& run, Thread& thread, const alloc::DriverCalls& calls) {
  if (calls.frees != 0 || calls.unmaps != 0)
    for (std::uint32_t s = 0; s < run.program->streams.size(); ++s)
      run.clock->synchronize({device_.record(thread.rank_class, s, thread.time, thread.last_wait)});
  const HostPrices& prices = *run.prices;
  thread.time += calls.mallocs * prices.device_malloc + calls.frees * prices.device_free +
                 calls.granules * prices.device_map + calls.event_records * prices.record;
  if (calls.mallocs != 0)
    thread.time += calls.bytes_allocated / MiB * prices.device_malloc_per_gib / 1024;
}

template class HostLoop<ListDevice>;
template class HostLoop<SharedDevice>;

}  // namespace foregather::sim
