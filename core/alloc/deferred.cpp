// Frees that wait until other streams are done with the block.
#include <cassert>

#include "core/alloc/caching_allocator.h"

namespace foregather::alloc {

void CachingAllocator::record_stream(BlockId id, StreamId stream) {
  Block& block = blocks_[id.row()];
  assert(id && block.state == BlockState::allocated && stream);
  if (lists_[block.list].stream == stream.row()) return;
  uses_.add(block.uses, stream.row(), !routes_.empty());
}

void CachingAllocator::defer_free(BlockIndex index) {
  blocks_[index].state = BlockState::waiting;
  path_ = Path::general;
  if (routes_.empty()) {
    record_events(index);
  } else {
    deferred_.push_back(index);
  }
}

void CachingAllocator::record_events(BlockIndex index) {
  Block& block = blocks_[index];
  calls_dirty_ = true;
  for (std::uint32_t use = block.uses; use != kNone; use = uses_[use].next) {
    const std::uint32_t stream = uses_[use].stream;
    events_.push(stream, {clock_->record(StreamId(stream)), index});
    ++calls_.event_records;
    ++block.events;
  }
  uses_.clear(block.uses);
}

// Blocks freed while a capture was under way. Their uses inside the capture are ordered by the
// graph itself and need no event.
void CachingAllocator::flush_deferred() {
  for (const BlockIndex index : deferred_) {
    uses_.drop_captured(blocks_[index].uses);
    record_events(index);
    if (blocks_[index].events > 0) continue;
    complete_free(index);
  }
  deferred_.clear();
}

void CachingAllocator::poll_events() {
  flush_deferred();
  calls_dirty_ = true;
  for (std::uint32_t stream = 0; stream < events_.streams(); ++stream) {
    while (!events_.empty(stream)) {
      ++calls_.event_queries;
      if (!clock_->query(events_.front(stream).event)) break;
      event_happened(stream);
    }
  }
}

void CachingAllocator::process_events() {
  begin_operation();
  if (has_pending() && routes_.empty()) poll_events();
}

void CachingAllocator::synchronize_events() {
  recorder_.synchronized();
  flush_deferred();
  calls_dirty_ = true;
  calls_.synchronized = true;
  for (std::uint32_t stream = 0; stream < events_.streams(); ++stream) {
    while (!events_.empty(stream)) {
      ++calls_.event_syncs;
      clock_->synchronize(events_.front(stream).event);
      event_happened(stream);
    }
  }
}

// The head of the stream's queue.
void CachingAllocator::event_happened(std::uint32_t stream) {
  const BlockIndex index = events_.front(stream).block;
  events_.pop(stream);
  if (--blocks_[index].events == 0) complete_free(index);
}

}  // namespace foregather::alloc
