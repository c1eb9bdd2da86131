// Whether a step goes on as the one before did.
#include <algorithm>

#include "sim/engine/host_loop.h"
#include "sim/engine/list_device.h"
#include "sim/engine/shared_device.h"

namespace foregather::sim {
namespace {

constexpr std::size_t kMostMarks = 4;  // of a step
constexpr std::uint32_t kFirstBody = 2;

}  // namespace

// The thread has come to where a repeat of its section ends.
template <class Device>
void HostLoop<Device>::end_repeat(const Thread& thread) {
  const ClassRun& run = *runs_[thread.rank_class];
  const std::size_t at = next_mark_++;
  if (at >= kMostMarks || run.step < kFirstBody || run.step > target_) return;
  if (!Device::needs_time && runs_.size() > 1) return;  // ops of several classes are always queued
  if constexpr (Device::needs_time)
    if (runs_.size() == 1) device_.land_at(thread.time);
  const bool is_first = at >= marks_.size();
  if (!is_first && run.step == target_ && !is_refused_ && repeats(marks_[at], thread.time)) {
    settled_ = thread.time - marks_[at].time;
    return;
  }
  if (is_first) marks_.resize(at + 1);
  remember(marks_[at], thread.time);
}

// Whatever happens from now on happens no earlier.
template <class Device>
Ns HostLoop<Device>::nothing_before() const {
  Ns time = device_.next_time();
  for (const Thread* thread : threads_)
    if (thread->state == State::ready) time = std::min(time, thread->time);
  return time;
}

template <class Device>
void HostLoop<Device>::remember(Mark& mark, Ns now) const {
  mark.time = now;
  mark.past = nothing_before();
  mark.classes.resize(runs_.size());
  for (std::size_t c = 0; c < runs_.size(); ++c) {
    const ClassRun& run = *runs_[c];
    ClassMark& to = mark.classes[c];
    to.step = run.step;
    to.active = run.active;
    to.idle_since = run.idle_since;
    to.events = run.events;
    to.threads.clear();
    for (const Thread& thread : run.threads)
      to.threads.push_back({thread.state, thread.at - thread.begin, thread.watched - thread.begin,
                            thread.time, thread.last_end, thread.last_wait, thread.handles,
                            std::span(thread.next_call, thread.last_call)});
  }
  device_.remember(mark.device, device_.next_event() - runs_.front()->last_step_event);
}

template <class Device>
bool HostLoop<Device>::repeats(const Mark& mark, Ns now) {
  Pairing pairing;
  pairing.took = now - mark.time;
  pairing.past = mark.past;
  pairing.records = device_.next_event() - mark.device.next_event;
  pairing.step = runs_.front()->step;
  pairing.steps = 1;
  if (pairing.took <= 0 || !pairing.past_or_later(mark.past, nothing_before())) return false;
  for (std::size_t c = 0; c < runs_.size(); ++c)
    if (!repeats(mark.classes[c], *runs_[c], pairing)) return false;
  return device_.repeats(mark.device, pairing);
}

template <class Device>
bool HostLoop<Device>::repeats(const ClassMark& mark, const ClassRun& run,
                               const Pairing& pairing) const {
  if (mark.step < kFirstBody || run.step != mark.step + 1 || run.active != mark.active)
    return false;
  if (run.active == 0 && !pairing.past_or_later(mark.idle_since, run.idle_since)) return false;
  if (run.plan != nullptr) {
    const MemoryPlan::Step& before = run.plan->step(mark.step);
    const MemoryPlan::Step& now = run.plan->step(run.step);
    if (before.failure || now.failure || before.peaks.reserved != now.peaks.reserved) return false;
  }
  const auto is_over = [&](EventHandle handle, Ns past) {
    return device_.event(handle).done && device_.event(handle).time < past;
  };
  const auto is_like = [&](EventHandle before, EventHandle now) {
    return now == before + pairing.records ||
           (is_over(before, pairing.past) && is_over(now, pairing.past + pairing.took));
  };
  if (!std::ranges::equal(mark.events, run.events, is_like)) return false;
  for (std::size_t t = 0; t < run.threads.size(); ++t) {
    const ThreadMark& before = mark.threads[t];
    const Thread& thread = run.threads[t];
    OpInstance last_wait = thread.last_wait;
    if (thread.state != before.state || thread.at - thread.begin != before.at ||
        thread.watched - thread.begin != before.watched ||
        !pairing.past_or_later(before.time, thread.time) ||
        !pairing.past_or_later(before.last_end, thread.last_end) ||
        !pairing.op(before.last_wait, last_wait) ||
        !std::ranges::equal(before.handles, thread.handles, is_like) ||
        !std::ranges::equal(before.calls, std::span(thread.next_call, thread.last_call)))
      return false;
  }
  return true;
}

template <class Device>
void HostLoop<Device>::end_settled() {
  for (const auto& run : runs_) {
    if (run->step > target_) continue;
    StepRecord& record = run->records[target_];
    record.host_end = run->records[target_ - 1].host_end + settled_;
    if (run->planned != nullptr) record.memory.peaks = run->planned->peaks;
  }
}

template void HostLoop<ListDevice>::end_repeat(const Thread&);
template void HostLoop<ListDevice>::end_settled();
template void HostLoop<SharedDevice>::end_repeat(const Thread&);
template void HostLoop<SharedDevice>::end_settled();

}  // namespace foregather::sim
