// How steps begin and end, and what ends a simulation early.
#include <algorithm>
#include <utility>

#include "core/ir/op_key.h"
#include "sim/engine/host_loop.h"
#include "sim/engine/list_device.h"
#include "sim/engine/shared_device.h"

namespace foregather::sim {

// Does its allocator look at the device's time, or end the simulation, in the step that begins or
// while others are that far behind?
template <class Device>
bool HostLoop<Device>::waits_for_device(const ClassRun& run) {
  if (run.plan == nullptr) return run.memory != nullptr;
  const auto waits = [](const MemoryPlan::DriverCall& call) {
    return call.calls.frees != 0 || call.calls.unmaps != 0;
  };
  for (std::uint32_t ahead = 0; ahead <= kMostStepsAhead + 1; ++ahead) {
    const MemoryPlan::Step& step = run.plan->step(run.step + ahead);
    if (step.failure) return true;
    for (const auto& calls : step.calls)
      if (std::ranges::any_of(calls, waits)) return true;
  }
  return false;
}

template <class Device>
void HostLoop<Device>::begin_section(std::uint16_t c, Ns time) {
  ClassRun& run = *runs_[c];
  const std::size_t section = std::min<std::size_t>(run.step, kSections - 1);
  run.records.resize(run.step + 1);
  run.records.back().host_begin = time;
  run.last_step_event = std::exchange(run.step_event, device_.next_event());
  if (c == 0) next_mark_ = 0;
  run.active = static_cast<std::uint32_t>(run.threads.size());
  if (run.memory) run.memory->begin_step(time);
  if (run.plan != nullptr) run.planned = &run.plan->step(run.step);
  run.is_in_turns = runs_.size() > 1 && waits_for_device(run);
  in_turns_ += run.is_in_turns ? 1 : 0;
  for (Thread& thread : run.threads) {
    const auto actions = run.program->threads[thread.index].actions(static_cast<Section>(section));
    thread.begin = thread.at = actions.data();
    thread.end = thread.watched = actions.data() + actions.size();
    if (run.planned != nullptr) {
      const auto& calls = run.planned->calls[thread.index];
      thread.next_call = calls.data();
      thread.last_call = calls.data() + calls.size();
    }
    if (repeats_ != nullptr && c == 0) {
      const std::vector<Repeat>& repeats = (*repeats_)[thread.index][section];
      thread.last_repeat = repeats.data() + repeats.size();
      begin_repeat(thread, repeats.data());
    }
    set_stop(run, thread);
    thread.time = thread.last_end = time;
    thread.state = State::ready;
  }
  if (run.step > 0)
    for (Thread& thread : run.threads) thread.time += graph_.classes[c].start_delay;
}

// When all classes had ended the step that step `next` of a class must wait for.
template <class Device>
Ns HostLoop<Device>::all_ended(std::uint32_t next) const {
  Ns time = 0;
  if (next > kMostStepsAhead)
    for (const auto& run : runs_)
      time = std::max(time, run->records[next - kMostStepsAhead - 1].host_end);
  return time;
}

template <class Device>
void HostLoop<Device>::end_thread(Thread& thread) {
  ClassRun& run = *runs_[thread.rank_class];
  thread.state = State::done;
  if (--run.active != 0) return;
  Ns time = 0;
  for (const Thread& each : run.threads) time = std::max(time, each.time);
  StepRecord& record = run.records.back();
  record.host_end = time;
  if (run.memory) record.memory = run.memory->end_step(time);
  if (run.planned != nullptr) record.memory.peaks = run.planned->peaks;
  ++run.step;
  in_turns_ -= run.is_in_turns ? 1 : 0;
  run.idle_since = time;
  if (!finished()) begin_sections();
}

template <class Device>
bool HostLoop<Device>::finished() const {
  return std::ranges::all_of(runs_, [&](const auto& run) { return run->step > target_; });
}

// Lets every class that is between two steps begin the next one, if it may.
template <class Device>
void HostLoop<Device>::begin_sections() {
  std::uint32_t slowest = runs_.front()->step;
  for (const auto& run : runs_) slowest = std::min(slowest, run->step);
  for (std::uint16_t c = 0; c < runs_.size(); ++c)
    if (runs_[c]->active == 0 && runs_[c]->step <= slowest + kMostStepsAhead)
      begin_section(c, std::max(runs_[c]->idle_since, all_ended(runs_[c]->step)));
}

template <class Device>
void HostLoop<Device>::run_out(ClassRun& run, const Thread& thread, std::uint32_t storage) {
  OutOfMemory oom;
  oom.rank_class = thread.rank_class;
  oom.storage = StorageId(storage);
  oom.requested = graph_.storages[storage].bytes;
  oom.in_first_step = run.step <= 1;
  for (const Action* at = thread.at; at != thread.end && !oom.op; ++at)
    if (at->kind == ActionKind::launch) oom.op = OpId(at->a);
  if (run.memory && oom.op) run.memory->launched(oom.op->row());
  oom_ = oom;
  break_off();
}

// Ends the steps under way where they are.
template <class Device>
void HostLoop<Device>::break_off() {
  for (const auto& run : runs_) {
    if (run->active == 0) continue;
    StepRecord& record = run->records.back();
    for (const Thread& thread : run->threads)
      record.host_end = std::max(record.host_end, thread.last_end);
    if (run->memory) record.memory = run->memory->end_step(record.host_end);
    if (run->planned != nullptr) record.memory.peaks = run->planned->peaks;
  }
}

template <class Device>
Error HostLoop<Device>::deadlock() const {
  std::string where;
  for (const Thread* thread : threads_) {
    if (thread->state != State::blocked && thread->state != State::waiting) continue;
    const ClassRun& run = *runs_[thread->rank_class];
    const auto name = graph_.text(run.program->threads[thread->index].name);
    where += fmt::format("{}class {} thread '{}' at action {}", where.empty() ? "" : ", ",
                         thread->rank_class, name, thread->at - thread->begin);
    if (thread->at->kind == ActionKind::launch)
      where += fmt::format(
          " ({})", op_key(graph_, OpId(thread->at->a),
                          graph_.ranks_of(graph_.classes[thread->rank_class].ranks).front(), 0));
  }
  return {{}, "deadlock: every host thread waits: " + where, Fault::input};
}

template void HostLoop<ListDevice>::begin_sections();
template void HostLoop<ListDevice>::end_thread(Thread&);
template bool HostLoop<ListDevice>::finished() const;
template void HostLoop<ListDevice>::run_out(ClassRun&, const Thread&, std::uint32_t);
template Error HostLoop<ListDevice>::deadlock() const;
template void HostLoop<SharedDevice>::begin_sections();
template void HostLoop<SharedDevice>::end_thread(Thread&);
template bool HostLoop<SharedDevice>::finished() const;
template void HostLoop<SharedDevice>::run_out(ClassRun&, const Thread&, std::uint32_t);
template Error HostLoop<SharedDevice>::deadlock() const;

}  // namespace foregather::sim
