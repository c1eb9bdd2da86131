// Construction, settings and the fast path: a malloc that finds a cached block, a free.
#include "core/alloc/caching_allocator.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace foregather::alloc {
namespace {

constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max();

}  // namespace

CachingAllocator::CachingAllocator(const AllocConfig& config, DeviceMemory& memory,
                                   EventClock& clock)
    : config_(config),
      rounding_(config),
      max_split_(config.max_split_size.value_or(kUnlimited)),
      pools_(2),
      memory_(&memory),
      clock_(&clock) {
  assert(config.native_backend && "only the native allocator is replicated");
  assert(memory.total() < FreeIndex::kSizeLimit);
  pools_[0].kind = PoolKind::small;
  pools_[1].kind = PoolKind::large;
  set_memory_fraction(config.memory_fraction);
}

CachingAllocator::CachingAllocator(const CachingAllocator& other, DeviceMemory& memory,
                                   EventClock& clock)
    : config_(other.config_),
      rounding_(other.rounding_),
      max_split_(other.max_split_),
      limit_(other.limit_),
      counts_searches_(other.counts_searches_),
      plain_search_(other.plain_search_),
      blocks_(other.blocks_),
      pools_(other.pools_),
      recorder_(other.recorder_),
      uses_(other.uses_),
      events_(other.events_),
      deferred_(other.deferred_),
      routes_(other.routes_),
      private_pools_(other.private_pools_),
      arenas_(other.arenas_),
      spare_arenas_(other.spare_arenas_),
      stream_handles_(other.stream_handles_),
      memory_(&memory),
      clock_(&clock),
      calls_(other.calls_),
      calls_dirty_(other.calls_dirty_) {}

void CachingAllocator::set_memory_fraction(double fraction) {
  assert(fraction >= 0 && fraction <= 1);
  config_.memory_fraction = fraction;
  limit_.reset();
  if (fraction < 1) {
    limit_ = static_cast<Bytes>(fraction * static_cast<double>(memory_->total()));
  }
  counts_searches_ = limit_ && config_.garbage_collection_threshold > 0;
  set_expandable_segments(config_.expandable_segments);
}

void CachingAllocator::set_expandable_segments(bool on) {
  config_.expandable_segments = on;
  plain_search_ = !on && arenas_.empty() && !counts_searches_ && max_split_ == kUnlimited;
}

void CachingAllocator::set_stream_handle(StreamId stream, std::uint64_t handle) {
  for (auto row = stream_handles_.size(); row <= stream.row(); ++row) {
    stream_handles_.push_back(row);
  }
  stream_handles_[stream.row()] = handle;
}

Allocation CachingAllocator::malloc(Bytes requested, StreamId stream) {
  assert(requested >= 0 && stream);
  begin_operation();
  if (requested == 0) [[unlikely]] return {AllocStatus::empty};
  if (requested > kMaxRequest) [[unlikely]] return {AllocStatus::too_big};
  if (has_pending() && routes_.empty()) [[unlikely]] poll_events();

  Request request = request_for(requested, stream);
  BlockIndex found = take_cached(request);
  if (found == 0) [[unlikely]] {
    calls_dirty_ = true;
    found = allocate_from_driver(request);
    if (found == 0) {
      recorder_.out_of_memory();
      if (sink_ != nullptr) sink_->out_of_memory(requested, stream, memory_->available());
      return {AllocStatus::out_of_memory, true};
    }
  }
  return hand_out(request, found);
}

CachingAllocator::Request CachingAllocator::request_for(Bytes requested, StreamId stream) const {
  const Bytes size = rounding_.block_size(requested);
  auto pool = static_cast<std::uint32_t>(pool_kind(size));
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) {
    if (route->stream && route->stream != stream) continue;
    pool += 2 + 2 * route->pool.row();
    break;
  }
  return {requested, size, stream.row(), pool, config_.expandable_segments};
}

BlockIndex CachingAllocator::take_cached(const Request& request) {
  if (!plain_search_) return take_cached_slow(request);
  FreeIndex& free = pools_[request.pool].on(request.stream).free;
  FreeIndex::Position at;
  if (!free.lower_bound(request.size, at)) return 0;
  const BlockIndex found = free.block(at);
  free.erase(at);
  return found;
}

BlockIndex CachingAllocator::take_cached_slow(const Request& request) {
  Pool& pool = pools_[request.pool];
  if (counts_searches_) ++pool.searches;
  FreeIndex& free = pool.on(request.stream).free;
  FreeIndex::Position at;
  if (!free.lower_bound(request.size, at)) return 0;

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
      if (!free.next(at)) return 0;
    } while (block_at(at).expandable());
  }

  const Bytes size = block_at(at).size;
  if (request.size < max_split_) {
    if (size >= max_split_) return 0;
  } else if (size >= request.size + config_.max_non_split_rounding) {
    return 0;
  }
  const BlockIndex found = free.block(at);
  free.erase(at);
  return found;
}

bool CachingAllocator::may_split(const Request& request, const Block& block) const {
  const Pool& pool = pools_[request.pool];
  if (pool.owner && private_pools_[pool.owner.row()].options.no_split) return false;
  const Bytes remaining = block.size - request.size;
  if (pool.kind == PoolKind::small || request.expandable) return remaining >= kMinBlockSize;
  return request.size < max_split_ && remaining > kSmallSize;
}

Allocation CachingAllocator::hand_out(const Request& request, BlockIndex found) {
  BlockIndex index = found;
  const PoolKind kind = pools_[request.pool].kind;
  const bool was_split = blocks_[found].split();
  if (may_split(request, blocks_[found])) {
    // The front is handed out under a new number; what remains keeps the old one.
    index = blocks_.acquire();
    Block& front = blocks_[index];
    Block& rest = blocks_[found];
    front.address = rest.address;
    front.size = request.size;
    front.previous = rest.previous;
    front.next = found;
    front.stream = rest.stream;
    front.arena = rest.arena;
    front.pool = rest.pool;
    blocks_[front.previous].next = index;
    blocks_.reset_border();
    rest.previous = index;
    rest.address += request.size;
    rest.size -= request.size;
    insert_free(found);
    if (!rest.expandable()) {
      recorder_.inactive_split(kind, was_split ? 0 : 1, was_split ? -request.size : rest.size);
    }
  } else if (was_split && !blocks_[found].expandable()) {
    recorder_.inactive_split(kind, -1, -blocks_[found].size);
  }
  Block& block = blocks_[index];
  block.state = BlockState::allocated;
  block.requested = request.requested;
  recorder_.allocated(kind, block.size, request.requested);
  if (block.size >= max_split_) recorder_.oversize_allocation(+1);
  return {AllocStatus::ok, calls_dirty_, BlockId(index), block.address};
}

void CachingAllocator::free(BlockId id) {
  begin_operation();
  const Block& block = blocks_[id.row()];
  assert(id && id.row() != 0 && block.state == BlockState::allocated && block.size > 0);
  recorder_.free_requested(pools_[block.pool].kind, block.size);
  if (block.size >= max_split_) recorder_.oversize_allocation(-1);
  if (block.uses != kNone) [[unlikely]] {
    defer_free(id.row());
  } else {
    complete_free(id.row());
  }
}

void CachingAllocator::complete_free(BlockIndex index) {
  Block& block = blocks_[index];
  const PoolKind kind = pools_[block.pool].kind;
  const Bytes size = block.size;
  std::int64_t split_blocks = 0;
  Bytes split_bytes = 0;
  block.state = BlockState::free;
  for (const BlockIndex neighbour : {block.previous, block.next}) {
    if (blocks_[neighbour].state != BlockState::free) continue;
    split_blocks -= 1;
    split_bytes -= blocks_[neighbour].size;
    merge(index, neighbour);
  }
  insert_free(index);
  if (block.split()) {
    split_blocks += 1;
    split_bytes += block.size;
  }
  if (!block.expandable()) recorder_.inactive_split(kind, split_blocks, split_bytes);
  recorder_.free_completed(kind, size, block.requested);
}

// The neighbour must be idle and in the same state; it disappears.
void CachingAllocator::merge(BlockIndex into, BlockIndex neighbour) {
  Block& block = blocks_[into];
  const Block& gone = blocks_[neighbour];
  if (gone.state == BlockState::free) {
    pools_[gone.pool].on(gone.stream).free.erase(gone.size, gone.address);
  } else {
    pools_[gone.pool].on(gone.stream).unmapped.erase(gone.address);
  }
  if (block.previous == neighbour) {
    block.address = gone.address;
    block.previous = gone.previous;
    blocks_[block.previous].next = into;
  } else {
    block.next = gone.next;
    blocks_[block.next].previous = into;
  }
  blocks_.reset_border();
  block.size += gone.size;
  blocks_.release(neighbour);
}

void CachingAllocator::insert_free(BlockIndex index) {
  Block& block = blocks_[index];
  Pool& pool = pools_[block.pool];
  block.age_base = pool.searches;
  pool.on(block.stream).free.insert(block.size, block.address, index);
}

Bytes CachingAllocator::largest_free_block() const {
  Bytes largest = 0;
  for (const Pool& pool : pools_) {
    for (const StreamBlocks& blocks : pool.streams) {
      FreeIndex::Position at;
      if (!blocks.free.last(at)) continue;
      largest = std::max(largest, blocks_[blocks.free.block(at)].size);
    }
  }
  return largest;
}

}  // namespace foregather::alloc
