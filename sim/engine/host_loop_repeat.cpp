#include <algorithm>

#include "sim/engine/host_loop.h"
#include "sim/engine/list_device.h"
#include "sim/engine/shared_device.h"

namespace foregather::sim {

template <class Device>
void HostLoop<Device>::begin_repeat(Thread& thread, const Repeat* repeat) {
  thread.repeat = repeat;
  thread.boundary = repeat == thread.last_repeat ? nullptr : thread.begin + repeat->begin;
  thread.periods = {};
  // Several classes skip nothing.
  if (thread.boundary != nullptr && runs_.size() > 1)
    thread.boundary += static_cast<std::ptrdiff_t>(repeat->period) * repeat->count;
}

// How many periods from here on the thread would go through without anybody else, with the same
// calls to the driver, and …
template <class Device>
std::uint32_t HostLoop<Device>::periods_to_skip(const ClassRun& run, const Thread& thread) const {
  const Repeat& repeat = *thread.repeat;
  const Periods& now = thread.periods;
  const Action* const last = std::min(thread.watched, thread.end);
  if (run.planned != nullptr && run.planned->failure) return 0;
  std::uint32_t periods = std::min(repeat.count - now.next,
                                   static_cast<std::uint32_t>((last - thread.at) / repeat.period));
  // Periods go to the driver as the last one did.
  const auto calls = static_cast<std::ptrdiff_t>(now.calls);
  const auto at = static_cast<std::uint32_t>(thread.at - thread.begin);
  const MemoryPlan::DriverCall* next = thread.next_call;
  for (std::uint32_t period = 0; period < periods; ++period) {
    const std::uint32_t end = at + (period + 1) * repeat.period;
    for (std::ptrdiff_t i = 0; i <= calls; ++i, ++next) {
      const bool is_there = next != thread.last_call && next->action < end;
      const bool is_like = i < calls && is_there &&
                           next->action == (next - calls)->action + repeat.period &&
                           next->calls == (next - calls)->calls;
      if (i == calls && !is_there) break;
      if (!is_like) return limited(run, thread, period);
    }
  }
  return limited(run, thread, periods);
}

// … without a wait for records from before that could still matter.
template <class Device>
std::uint32_t HostLoop<Device>::limited(const ClassRun& run, const Thread& thread,
                                        std::uint32_t periods) const {
  const Repeat& repeat = *thread.repeat;
  for (std::uint32_t period = 0; period < periods; ++period)
    for (const std::uint32_t offset : repeat.outside) {
      const Action& wait = thread.at[period * repeat.period + offset];
      const EventRecord& event = device_.event(run.events[wait.a - run.first_event]);
      if (!event.done || event.time >= thread.time) periods = period;
    }
  return periods;
}

template <class Device>
Pairing HostLoop<Device>::pairing(const ClassRun& run, const Thread& thread,
                                  std::uint32_t periods) const {
  const Repeat& repeat = *thread.repeat;
  const Periods& now = thread.periods;
  return {now.took,       now.begun,   repeat.ops,
          repeat.records, repeat.rows, repeat.rows.first + (now.next - 1) * repeat.ops,
          run.step,       periods};
}

template <class Device>
void HostLoop<Device>::skip_periods(ClassRun& run, Thread& thread, std::uint32_t periods) {
  const Repeat& repeat = *thread.repeat;
  Periods& now = thread.periods;
  const EventHandle first = device_.next_event();
  const Pairing pairing = this->pairing(run, thread, periods);
  device_.skip(*snapshot_, pairing);
  for (std::uint32_t period = 0; period < periods; ++period)
    for (const auto& [offset, event] : repeat.recorded)
      run.events[thread.at[period * repeat.period + offset].a - run.first_event] =
          first + period * repeat.records + event;
  thread.at += static_cast<std::ptrdiff_t>(periods) * repeat.period;
  thread.time += pairing.later();
  pairing.time(now.last_end, thread.last_end);
  pairing.op(now.last_wait, thread.last_wait);
  thread.next_call += static_cast<std::ptrdiff_t>(periods) * now.calls;
  now.next += periods;
}

// The items that the period that has just ended brought the streams.
template <class Device>
void HostLoop<Device>::count_items(const ClassRun& run, const Thread& thread) {
  items_.assign(run.program->streams.size(), 0);
  for (const Action& action : std::span(thread.at - thread.repeat->period, thread.at)) {
    switch (action.kind) {
      case ActionKind::launch:
        ++items_[rows_[run.rank_class][action.a - run.first_op].stream];
        break;
      case ActionKind::wait:
        if (run.events[action.a - run.first_event] != 0) ++items_[action.stream.row()];
        break;
      case ActionKind::record:
      case ActionKind::host_wait_stream: ++items_[action.stream.row()]; break;
      case ActionKind::host_wait_device:
        for (std::uint32_t& each : items_) ++each;
        break;
      default: break;
    }
  }
}

template <class Device>
void HostLoop<Device>::remember(const ClassRun& run, Thread& thread) {
  const Repeat& repeat = *thread.repeat;
  Periods& now = thread.periods;
  if (snapshot_ == nullptr) snapshot_ = std::make_unique<typename Device::Snapshot>();
  if constexpr (Device::needs_time) {
    count_items(run, thread);
    const bool is_known = repeat.outside.empty() && now.first_switches == switches_;
    device_.remember(*snapshot_, repeat.back,
                     {is_known ? items_ : std::span<std::uint32_t>(), now.next});
  } else {
    device_.remember(*snapshot_, repeat.back);
  }
  device_.note_in(*snapshot_);
  now.is_remembered = true;
  now.switches = switches_;
  now.last_end = thread.last_end;
  now.last_wait = thread.last_wait;
}

// What a period takes from the streams is what it brings them.
template <class Device>
void HostLoop<Device>::begin_coasting(const ClassRun& run, const Thread& thread,
                                      std::uint32_t periods) {
  if constexpr (Device::needs_time) {
    device_.begin_coasting(*snapshot_, pairing(run, thread, periods), items_, thread.time);
    coasting_switches_ = switches_;
  }
}

// Goes the device on by itself, so that there is nothing to look for? It does until the thread may
// skip what is left.
template <class Device>
bool HostLoop<Device>::coasts(const ClassRun& run, const Thread& thread) {
  if constexpr (Device::needs_time) {
    constexpr std::uint32_t kWorthALook = 4;  // periods: a look plays about two singly
    if (!device_.is_coasting()) return false;
    if (!device_.is_coasting(thread.repeat->rows, run.step)) return true;
    if (thread.periods.alike >= thread.periods.patience &&
        periods_to_skip(run, thread) >= kWorthALook) {
      device_.land_at(thread.time);
      return false;
    }
    if (coasting_switches_ == switches_) device_.look_ahead();
    return true;
  }
  return false;
}

// What a device has done ahead of the host is known to the only thread that acts. Where others may
// act before, and between two steps, it is where they are.
template <class Device>
void HostLoop<Device>::land() {
  if constexpr (Device::needs_time) {
    if (!device_.is_coasting()) return;
    Ns time = kForever;
    for (const Thread* thread : threads_)
      if (thread->state == State::ready || thread->state == State::blocked)
        time = std::min(time, thread->time);
    device_.land(time == kForever ? runs_.front()->idle_since : time);
  }
}

template <class Device>
void HostLoop<Device>::reach_boundary(ClassRun& run, Thread& thread) {
  const Repeat& repeat = *thread.repeat;
  Periods& now = thread.periods;
  if (runs_.size() > 1) {
    end_repeat(thread);
    return begin_repeat(thread, thread.repeat + 1);
  }
  const bool is_alone = blocked_ == 0 && std::ranges::none_of(run.threads, [&](const Thread& t) {
                          return &t != &thread && t.state == State::ready;
                        });
  const Ns took = thread.time - now.begun;
  const bool is_like = now.next > 1 && took == now.took && took > 0 && is_alone;
  now.alike = is_like ? now.alike + 1 : 0;
  now.took = took;
  if (now.next == 0) now.first_switches = switches_;
  const bool coasts = this->coasts(run, thread);
  if (is_alone && !coasts) device_.advance(thread.time);
  if (now.is_remembered) {
    const Pairing pairing = this->pairing(run, thread, 0);
    device_.forget();
    if (is_like && now.switches == switches_ && device_.repeats(*snapshot_, pairing)) {
      std::uint32_t periods = periods_to_skip(run, thread);
      if (!pairing.time(now.last_end, thread.last_end) ||
          !pairing.op(now.last_wait, thread.last_wait))
        periods = 0;
      if (periods > 0) skip_periods(run, thread, periods);
      begin_coasting(run, thread, periods);
    }
    now.is_remembered = false;
    now.alike = 0;
    ++now.patience;
  } else if (!coasts && now.alike >= now.patience && now.next + 2 < repeat.count &&
             device_.is_within(repeat.rows, run.step)) {
    remember(run, thread);
  }
  now.begun = thread.time;
  now.calls = 0;
  if (++now.next <= repeat.count)
    thread.boundary = thread.at + repeat.period;
  else {
    if (is_alone) end_repeat(thread);
    begin_repeat(thread, thread.repeat + 1);
  }
}

template void HostLoop<ListDevice>::begin_repeat(Thread&, const Repeat*);
template void HostLoop<ListDevice>::reach_boundary(ClassRun&, Thread&);
template void HostLoop<ListDevice>::land();
template void HostLoop<SharedDevice>::land();
template void HostLoop<SharedDevice>::begin_repeat(Thread&, const Repeat*);
template void HostLoop<SharedDevice>::reach_boundary(ClassRun&, Thread&);

}  // namespace foregather::sim
