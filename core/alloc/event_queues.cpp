#include "core/alloc/event_queues.h"

namespace foregather::alloc {

void EventQueues::push(std::uint32_t stream, Entry entry) {
  if (stream >= queues_.size()) queues_.resize(stream + 1);
  queues_[stream].entries.push_back(entry);
  ++size_;
}

void EventQueues::pop(std::uint32_t stream) {
  assert(!empty(stream));
  Queue& queue = queues_[stream];
  ++queue.head;
  --size_;
  if (queue.head == queue.entries.size()) {
    queue.entries.clear();
    queue.head = 0;
  } else if (queue.head >= 64 && 2 * queue.head > queue.entries.size()) {
    queue.entries.erase(queue.entries.begin(),
                        queue.entries.begin() + static_cast<std::ptrdiff_t>(queue.head));
    queue.head = 0;
  }
}

}  // namespace foregather::alloc
