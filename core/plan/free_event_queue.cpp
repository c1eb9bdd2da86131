#include "core/plan/free_event_queue.h"

#include <algorithm>
#include <cassert>

namespace foregather::plan {

namespace {

constexpr std::size_t kLimit = 2;  // torch/distributed/fsdp/_limiter_utils.py

}  // namespace

std::vector<FreeEventQueue::Entry>& FreeEventQueue::entries() {
  return lowering_.section == Section::first ? first_ : body_;
}

void FreeEventQueue::begin_section() { puts_ = 0; }

// Until resolve() the action is a delay of nothing.
void FreeEventQueue::leave_place() { lowering_.builder.act({ActionKind::host_delay, {}, 0, 0}); }

void FreeEventQueue::take() {
  entries().push_back({true, 0, lowering_.thread, lowering_.builder.position()});
  leave_place();
}

void FreeEventQueue::put() {
  if (puts_ == slots_.size()) slots_.push_back({lowering_.builder.event(), {}, 0});
  entries().push_back({false, puts_, lowering_.thread, lowering_.builder.position()});
  if (few_) {
    leave_place();
    leave_place();
  }
  lowering_.builder.record(slots_[puts_++].event, lowering_.compute);
}

void FreeEventQueue::copy_section(std::uint32_t main_shift) {
  body_ = first_;
  for (Entry& entry : body_)
    if (entry.thread == lowering_.main_thread) entry.position += main_shift;
}

Action& FreeEventQueue::at(Section section, const Entry& entry, std::uint32_t place) {
  HostThread& thread = lowering_.builder.graph().programs.back().threads[entry.thread];
  return thread.sections[static_cast<std::size_t>(section)][entry.position + place];
}

EventId FreeEventQueue::awaited(const Queued& oldest) {
  Slot& slot = slots_[oldest.slot];
  if (slot.puts == oldest.put) return slot.event;
  assert(few_ && slot.puts == oldest.put + 1);
  if (!slot.before) slot.before = lowering_.builder.event();
  return slot.before;
}

void FreeEventQueue::play(Section section, Queue& queue, bool write) {
  for (const Entry& entry : section == Section::first ? first_ : body_) {
    if (!entry.takes) {
      queue.push_back({entry.slot, ++slots_[entry.slot].puts});
    } else if (queue.size() >= kLimit) {
      const EventId event = awaited(queue.front());
      if (write) at(section, entry, 0) = {ActionKind::host_wait_event, {}, event.row(), 0};
      queue.pop_front();
    }
  }
}

void FreeEventQueue::resolve() {
  Queue queue;
  play(Section::first, queue, true);
  constexpr int kMostSteps = 16;  // the queue repeats after one or two
  for (int step = 0; step < kMostSteps; ++step) {
    const Queue before = queue;
    play(Section::body, queue, false);
    if (std::equal(queue.begin(), queue.end(), before.begin(), before.end(),
                   [](const Queued& a, const Queued& b) { return a.slot == b.slot; }))
      break;
  }
  play(Section::body, queue, true);
  keep_recordings();
}

void FreeEventQueue::keep_recordings() {
  const auto is_kept = [](const Slot& slot) { return bool{slot.before}; };
  if (std::none_of(slots_.begin(), slots_.end(), is_kept)) return;
  const StreamId stream = lowering_.builder.stream("rate_limiter");
  for (const Section section : {Section::first, Section::body})
    for (const Entry& entry : section == Section::first ? first_ : body_) {
      if (entry.takes || !is_kept(slots_[entry.slot])) continue;
      const Slot& slot = slots_[entry.slot];
      at(section, entry, 0) = {ActionKind::wait, stream, slot.event.row(), 0};
      at(section, entry, 1) = {ActionKind::record, stream, slot.before.row(), 0};
    }
}

}  // namespace foregather::plan
