// A malloc that finds a cached block, and a free.
#include "core/alloc/caching_allocator.h"

#include <cassert>

namespace foregather::alloc {

Allocation CachingAllocator::malloc(Bytes requested, StreamId stream) {
  assert(requested >= 0 && stream);
  if (!fast_ || requested == 0 || requested > kMaxRequest) [[unlikely]]
    return malloc_unusual(requested, stream);
  const Bytes size = rounding_.block_size(requested);
  const auto pool = static_cast<std::uint32_t>(pool_kind(size));
  const Request request{requested, size, stream.row(), pool, list_of(pool, stream.row()), false};
  FreeIndex::Position at;
  if (!lists_[request.list].free.lower_bound(size, at)) [[unlikely]]
    return malloc_missed(request);
  return take_cached<true>(request, at);
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
  return take_cached<false>(request, at);
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

// What must be left for a block to be split.
template <bool kPlain>
inline Bytes CachingAllocator::least_remainder(const Request& request) const {
  constexpr Bytes kNever = kMaxRequest;
  if constexpr (kPlain) return request.pool == 0 ? kMinBlockSize : kSmallSize + 1;
  if (request.pool >= 2) [[unlikely]] {
    const PoolId owner = pools_[request.pool].owner;
    if (private_pools_[owner.row()].options.no_split) return kNever;
  }
  if (request.pool % 2 == 0 || request.expandable) return kMinBlockSize;
  return request.size < max_split_ ? kSmallSize + 1 : kNever;
}

template <bool kPlain>
inline Allocation CachingAllocator::take_cached(const Request& request,
                                                const FreeIndex::Position& at) {
  FreeIndex& free = lists_[request.list].free;
  const BlockIndex found = free.block(at);
  const Block& block = blocks_[found];
  const Bytes whole = block.size;
  const bool expandable = !kPlain && block.expandable();
  const bool counted = block.split() && !expandable;
  const Bytes remaining = whole - request.size;
  if (remaining < least_remainder<kPlain>(request)) {
    free.erase(at);
    return hand_out<kPlain>(
        request, found, whole,
        counted ? StatsRecorder::SplitChange{-1, -whole} : StatsRecorder::SplitChange{});
  }
  free.move(at, remaining, block.address + request.size);
  if (!kPlain && counts_searches_) blocks_[found].age_base = pools_[request.pool].searches;
  StatsRecorder::SplitChange split{1, remaining};
  if (counted)
    split = {0, -request.size};
  else if (expandable)
    split = {};
  return hand_out<kPlain>(request, split_front(found, request.size), whole, split);
}

// A block that came from the driver and is in no list.
Allocation CachingAllocator::take_new(const Request& request, BlockIndex found) {
  const bool expandable = blocks_[found].expandable();
  const Bytes whole = blocks_[found].size;
  const Bytes remaining = whole - request.size;
  if (remaining < least_remainder<false>(request))
    return hand_out<false>(request, found, whole, {});
  const BlockIndex front = split_front(found, request.size);
  insert_free(found);
  return hand_out<false>(
      request, front, whole,
      expandable ? StatsRecorder::SplitChange{} : StatsRecorder::SplitChange{1, remaining});
}

// Makes the front of a block a block of its own; what remains keeps the number.
[[gnu::always_inline]] inline BlockIndex CachingAllocator::split_front(BlockIndex from,
                                                                       Bytes size) {
  const BlockIndex index = blocks_.acquire();
  Block& front = blocks_[index];
  Block& rest = blocks_[from];
  front.address = rest.address;
  front.size = size;
  front.previous = rest.previous;
  front.next = from;
  front.list = rest.list;
  front.kind = rest.kind;
  front.arena = rest.arena;
  blocks_[rest.previous].next = index;
  rest.previous = index;
  rest.address += size;
  rest.size -= size;
  return index;
}

template <bool kPlain>
inline Allocation CachingAllocator::hand_out(const Request& request, BlockIndex index,
                                             Bytes cut_from, StatsRecorder::SplitChange split) {
  Block& block = blocks_[index];
  block.state = BlockState::allocated;
  block.requested = request.requested;
  recorder_.allocated(static_cast<PoolKind>(request.pool % 2), block.size, request.requested,
                      split);
  if (!kPlain && block.size >= max_split_) recorder_.oversize_allocation(+1);
  return {AllocStatus::ok, !kPlain && calls_dirty_, BlockId(index), block.address, cut_from};
}

void CachingAllocator::free(BlockId id) {
  if (calls_dirty_) [[unlikely]]
    begin_operation();
  const BlockIndex index = id.row();
  const Block& block = blocks_[index];
  assert(id && index != 0 && block.state == BlockState::allocated && block.size > 0);
  const Bytes size = block.size;
  const Bytes requested = block.requested;
  const PoolKind kind = block.kind;
  if (fast_ && block.uses == kNone) [[likely]]
    return recorder_.freed(kind, size, requested, make_idle<true>(index));
  if (size >= max_split_) recorder_.oversize_allocation(-1);
  if (block.uses == kNone) return recorder_.freed(kind, size, requested, make_idle<false>(index));
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
  recorder_.free_completed(kind, size, requested, make_idle<false>(index));
}

// Merges the block with its free neighbours and lists the result. A neighbour that is listed
// already keeps its number and grows.
template <bool kPlain>
inline StatsRecorder::SplitChange CachingAllocator::make_idle(BlockIndex index) {
  Block& block = blocks_[index];
  FreeIndex& free = lists_[block.list].free;
  const BlockIndex previous = block.previous;
  const BlockIndex next = block.next;
  Block& before = blocks_[previous];
  Block& after = blocks_[next];
  const bool join_before = before.state == BlockState::free;
  const bool join_after = after.state == BlockState::free;
  StatsRecorder::SplitChange split;
  BlockIndex whole = index;
  if (join_before) {
    Bytes size = before.size + block.size;
    split = {-1, -before.size};
    before.next = next;
    after.previous = previous;
    if (join_after) {
      split.blocks -= 1;
      split.bytes -= after.size;
      size += after.size;
      before.next = after.next;
      blocks_[after.next].previous = previous;
      free.erase(after.size, after.address);
      blocks_.release(next);
    }
    free.move(before.size, before.address, size, before.address);
    before.size = size;
    blocks_.release(index);
    whole = previous;
  } else if (join_after) {
    split = {-1, -after.size};
    free.move(after.size, after.address, after.size + block.size, block.address);
    after.previous = previous;
    before.next = next;
    after.address = block.address;
    after.size += block.size;
    blocks_.release(index);
    whole = next;
  } else {
    block.state = BlockState::free;
    free.insert(block.size, block.address, index);
  }
  Block& merged = blocks_[whole];
  if (!kPlain && counts_searches_) merged.age_base = pools_[lists_[merged.list].pool].searches;
  if (!kPlain && merged.expandable()) return {};
  if (merged.split()) {
    split.blocks += 1;
    split.bytes += merged.size;
  }
  return split;
}

}  // namespace foregather::alloc
