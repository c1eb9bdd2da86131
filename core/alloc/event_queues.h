// Freed blocks that wait for events: a first-in first-out queue for each stream.
#pragma once

#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

#include "core/alloc/block_table.h"
#include "core/alloc/event_clock.h"

namespace foregather::alloc {

class EventQueues {
 public:
  struct Entry {
    EventToken event;
    BlockIndex block = 0;
  };

  /// No stream has an entry.
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  /// Streams are 0 … streams() − 1; some may have an empty queue.
  std::uint32_t streams() const { return static_cast<std::uint32_t>(queues_.size()); }

  bool empty(std::uint32_t stream) const {
    return queues_[stream].head == queues_[stream].entries.size();
  }
  const Entry& front(std::uint32_t stream) const {
    assert(!empty(stream));
    return queues_[stream].entries[queues_[stream].head];
  }
  /// Outstanding entries of a stream, oldest first.
  std::span<const Entry> entries(std::uint32_t stream) const {
    return std::span(queues_[stream].entries).subspan(queues_[stream].head);
  }
  void push(std::uint32_t stream, Entry entry);
  void pop(std::uint32_t stream);

 private:
  /// Entries before head are gone; the array is emptied when head reaches its end and compacted
  /// when more than half of it is gone.
  struct Queue {
    std::vector<Entry> entries;
    std::size_t head = 0;
  };
  std::vector<Queue> queues_;
  std::size_t size_ = 0;
};

}  // namespace foregather::alloc
