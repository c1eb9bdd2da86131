// A malloc that finds a cached block, and a free.
#include "core/alloc/caching_allocator.h"

#include <cassert>

namespace foregather::alloc {

Allocation CachingAllocator::malloc_counted(Bytes requested, StreamId stream) {
  if (path_ != Path::plain || requested == 0 || requested > kMaxRequest) [[unlikely]]
    return malloc_unusual(requested, stream);
  return malloc_plainly<Path::plain>(requested, stream);
}

Allocation CachingAllocator::malloc_unusual(Bytes requested, StreamId stream) {
  begin_operation();
  if (requested == 0) return {AllocStatus::empty};
  if (requested > kMaxRequest) return {AllocStatus::too_big};
  const Bytes size = rounding_.block_size(requested);
  const std::uint32_t pool = routed_pool(static_cast<std::uint32_t>(pool_kind(size)), stream);
  const Request request{requested,
                        size,
                        stream.row(),
                        pool,
                        list_of(pool, stream.row()),
                        config_.expandable_segments};
  if (has_pending() && routes_.empty()) poll_events();
  FreeIndex::Position at;
  return search(request, at) ? take_found(request, at) : malloc_missed(request);
}

bool CachingAllocator::has_cached(Bytes requested, StreamId stream) const {
  if (requested <= 0 || requested > kMaxRequest) return false;
  Request request{};
  request.size = rounding_.block_size(requested);
  request.pool = routed_pool(static_cast<std::uint32_t>(pool_kind(request.size)), stream);
  request.expandable = config_.expandable_segments;
  const std::vector<std::uint32_t>& lists = pools_[request.pool].lists;
  if (stream.row() >= lists.size() || lists[stream.row()] == kNone) return false;
  FreeIndex::Position at;
  return find_cached(request, lists_[lists[stream.row()]].free, at);
}

Allocation CachingAllocator::take_found(const Request& request, const FreeIndex::Position& at) {
  return take_cached<Path::general>(request, at);
}

bool CachingAllocator::search(const Request& request, FreeIndex::Position& at) {
  if (counts_searches_) ++pools_[request.pool].searches;
  return find_cached(request, lists_[request.list].free, at);
}

// Best fit with all its exceptions.
bool CachingAllocator::find_cached(const Request& request, const FreeIndex& free,
                                   FreeIndex::Position& at) const {
  if (!free.lower_bound(request.size, at)) return false;

  const auto block_at = [&](const FreeIndex::Position& position) -> const Block& {
    return blocks_[free.block(position)];
  };
  if (block_at(at).expandable() && request.expandable) {
    // What counts as the size of a block that can grow is the size it can grow to, so that blocks
    // with little room are used first.
    const auto grown_size = [&](const Block& block) {
      const Block& next = blocks_[block.next];
      return block.size + (next.state == BlockState::unmapped ? next.size : 0);
    };
    FreeIndex::Position next = at;
    while (block_at(at).expandable() && free.next(next) &&
           grown_size(block_at(next)) < grown_size(block_at(at))) {
      at = next;
    }
  } else if (block_at(at).expandable()) {
    // Expandable segments were switched off after some were made.
    do {
      if (!free.next(at)) return false;
    } while (block_at(at).expandable());
  }

  const Bytes size = block_at(at).size;
  if (request.size < max_split_) return size < max_split_;
  return size - request.size < config_.max_non_split_rounding;
}

// A block that came from the driver and is in no list.
Allocation CachingAllocator::take_new(const Request& request, BlockIndex found) {
  const bool expandable = blocks_[found].expandable();
  const Bytes whole = blocks_[found].size;
  const Bytes remaining = whole - request.size;
  if (remaining < least_remainder<Path::general>(request))
    return hand_out<Path::general>(request, found, whole, {});
  const BlockIndex front = split_front(found, request.size);
  insert_free(found);
  return hand_out<Path::general>(
      request, front, whole,
      expandable ? StatsRecorder::SplitChange{} : StatsRecorder::SplitChange{1, remaining});
}

void CachingAllocator::free_counted(BlockId id) {
  if (calls_dirty_) [[unlikely]]
    begin_operation();
  const BlockIndex index = id.row();
  const Block& block = blocks_[index];
  assert(id && index != 0 && block.state == BlockState::allocated && block.size > 0);
  const Bytes size = block.size;
  const Bytes requested = block.requested;
  const PoolKind kind = block.kind;
  if (path_ != Path::general && block.uses == kNone) [[likely]]
    return recorder_.freed(kind, size, requested, make_idle<Path::plain>(index));
  if (size >= max_split_) recorder_.oversize_allocation(-1);
  if (block.uses == kNone)
    return recorder_.freed(kind, size, requested, make_idle<Path::general>(index));
  recorder_.free_requested(kind, size);
  defer_free(index);
}

// The events of a block freed earlier have happened.
void CachingAllocator::complete_free(BlockIndex index) {
  if (sink_ != nullptr) sink_->free_completed(BlockId(index));
  const Block& block = blocks_[index];
  const Bytes size = block.size;
  const Bytes requested = block.requested;
  const PoolKind kind = block.kind;
  recorder_.free_completed(kind, size, requested, make_idle<Path::general>(index));
}

}  // namespace foregather::alloc
