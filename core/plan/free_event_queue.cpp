#include "core/plan/free_event_queue.h"

namespace foregather::plan {

namespace {

constexpr std::size_t kLimit = 2;  // torch/distributed/fsdp/_limiter_utils.py

}  // namespace

std::vector<FreeEventQueue::Entry>& FreeEventQueue::entries() {
  return lowering_.section == Section::first ? first_ : body_;
}

void FreeEventQueue::begin_section() { puts_ = 0; }

void FreeEventQueue::take() {
  entries().push_back({true, {}, lowering_.thread, lowering_.builder.position()});
  // No wait yet: the action is a delay of nothing until resolve().
  lowering_.builder.act({ActionKind::host_delay, {}, 0, 0});
}

void FreeEventQueue::put() {
  if (puts_ == events_.size()) events_.push_back(lowering_.builder.event());
  const EventId event = events_[puts_++];
  lowering_.builder.record(event, lowering_.compute);
  entries().push_back({false, event, 0, 0});
}

void FreeEventQueue::copy_section(std::uint32_t main_shift) {
  body_ = first_;
  for (Entry& entry : body_)
    if (entry.takes && entry.thread == lowering_.main_thread) entry.position += main_shift;
}

void FreeEventQueue::play(const std::vector<Entry>& entries, Queue& queue, Section section,
                          bool write) {
  std::vector<HostThread>& threads = lowering_.builder.graph().programs.back().threads;
  for (const Entry& entry : entries) {
    if (!entry.takes) {
      queue.push_back(entry.event);
    } else if (queue.size() >= kLimit) {
      if (write)
        threads[entry.thread].sections[static_cast<std::size_t>(section)][entry.position] = {
            ActionKind::host_wait_event, {}, queue.front().row(), 0};
      queue.pop_front();
    }
  }
}

void FreeEventQueue::resolve() {
  Queue queue;
  play(first_, queue, Section::first, true);
  constexpr int kMostSteps = 16;  // the queue repeats after one or two
  for (int step = 0; step < kMostSteps; ++step) {
    const Queue before = queue;
    play(body_, queue, Section::body, false);
    if (queue == before) break;
  }
  play(body_, queue, Section::body, true);
}

}  // namespace foregather::plan
