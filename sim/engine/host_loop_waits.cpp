// What a host thread waits for: places in launch queues, events, other threads.
#include "sim/engine/host_loop.h"
#include "sim/engine/list_device.h"
#include "sim/engine/shared_device.h"

namespace foregather::sim {

// A thread that waits for a place may as well wait for several: what it does until it turns to
// another stream joins the end of a full stream, where the device does not look before.
template <class Device>
WantedPlaces HostLoop<Device>::wanted_places(const ClassRun& run, const Action* at,
                                             const Action* stop) const {
  const LaunchRows& rows = rows_[run.rank_class];
  const std::uint32_t stream = rows[at->a - run.first_op].stream;
  const auto stays = [&](const Action& action) {
    switch (action.kind) {
      case ActionKind::launch: return rows[action.a - run.first_op].stream == stream;
      case ActionKind::record:
      case ActionKind::wait: return action.stream.row() == stream;
      case ActionKind::alloc:
      case ActionKind::free:
      case ActionKind::mark: return true;
      default: return false;
    }
  };
  std::uint32_t launches = 0;
  for (const Action* next = at; next != stop && launches < kMostPlaces && stays(*next); ++next)
    launches += next->kind == ActionKind::launch ? 1 : 0;
  return {run.rank_class, stream, launches};
}

// No thread is ready. If one alone waits for the device, lets it coast. If those that wait all wait
// for places, lets it go on until one of them has all that it wants. False: it was not so, or an
// allocator looks at device time.
template <class Device>
bool HostLoop<Device>::let_device_go_on() {
  if constexpr (Device::needs_time)
    if (blocked_ == 1 && device_.coast()) return true;
  if (!Device::needs_time || in_turns_ != 0) return false;
  wanted_.clear();
  for (const Thread* thread : threads_) {
    if (thread->state != State::blocked) continue;
    const ClassRun& run = *runs_[thread->rank_class];
    const bool is_launch = thread->at->kind == ActionKind::launch;
    if (!is_launch || run.memory != nullptr || run.step > target_) return false;
    wanted_.push_back(wanted_places(run, thread->at, thread->stop));
  }
  device_.make_any_places(wanted_);
  return true;
}

template <class Device>
bool HostLoop<Device>::has_place(const ClassRun& run, const Thread& thread) const {
  const LaunchRow& row = rows_[thread.rank_class][thread.at->a - run.first_op];
  return device_.place(thread.rank_class, row.stream).done;
}

// Frees blocked threads that can go on: where something has happened on their class's device. Waits
// are over with that; launches happen in their turn.
template <class Device>
void HostLoop<Device>::wake() {
  for (const auto& run : runs_) {
    if (run->blocked == 0 || !device_.has_moved(run->rank_class)) continue;
    for (Thread& thread : run->threads) {
      if (thread.state != State::blocked) continue;
      const bool is_launch = thread.at->kind == ActionKind::launch;
      if (is_launch && !has_place(*run, thread)) continue;
      thread.state = State::ready;
      --run->blocked;
      --blocked_;
      if (is_launch || !perform(thread)) continue;
      ++thread.at;
      thread.last_end = thread.time;
    }
  }
}

template <class Device>
bool HostLoop<Device>::wait_all(ClassRun& run, Thread& thread) {
  EventRecord last;
  for (EventHandle handle : thread.handles) {
    const EventRecord& event = device_.event(handle);
    if (!event.done) return false;
    if (event.time > last.time) last = event;
  }
  thread.handles.clear();
  if (last.time > thread.time) {
    thread.time = last.time + run.prices->synchronize;
    thread.last_wait = last.by;
  }
  return true;
}

// An action before the target's last one ended before the target's last one began: in the past.
template <class Device>
bool HostLoop<Device>::wait_action(ClassRun& run, Thread& thread, const Action& action) {
  const Thread& target = run.threads[action.a];
  const auto performed = static_cast<std::uint32_t>(target.at - target.begin);
  if (performed <= action.b) return false;
  if (performed == action.b + 1 && target.last_end > thread.time) {
    thread.time = target.last_end;
    thread.last_wait = target.last_wait;
  }
  return true;
}

template WantedPlaces HostLoop<ListDevice>::wanted_places(const ClassRun&, const Action*,
                                                          const Action*) const;
template bool HostLoop<ListDevice>::let_device_go_on();
template void HostLoop<ListDevice>::wake();
template bool HostLoop<ListDevice>::wait_all(ClassRun&, Thread&);
template bool HostLoop<ListDevice>::wait_action(ClassRun&, Thread&, const Action&);
template WantedPlaces HostLoop<SharedDevice>::wanted_places(const ClassRun&, const Action*,
                                                            const Action*) const;
template bool HostLoop<SharedDevice>::let_device_go_on();
template void HostLoop<SharedDevice>::wake();
template bool HostLoop<SharedDevice>::wait_all(ClassRun&, Thread&);
template bool HostLoop<SharedDevice>::wait_action(ClassRun&, Thread&, const Action&);

}  // namespace foregather::sim
