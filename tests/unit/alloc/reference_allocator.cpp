#include "tests/unit/alloc/reference_allocator.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>

#include "core/alloc/rounding.h"

namespace foregather::alloc::test {
namespace {

Bytes rounded(const AllocConfig& config, Bytes requested) {
  if (requested < 512) return 512;
  std::size_t slot = 0;
  while (slot < 15 && (requested >> (slot + 21)) > 0) ++slot;
  const Bytes divisions = config.roundup_power2_divisions[slot];
  if (divisions <= 1 || requested <= 512 * divisions) return (requested + 511) / 512 * 512;
  Bytes floor = 1;
  while (2 * floor <= requested) floor *= 2;
  if (floor == requested) return requested;
  Bytes size = floor;
  while (size < requested) size += floor / divisions;
  return size;
}

}  // namespace

void add(Stat& stat, std::int64_t by) {
  stat.current += by;
  if (by > 0) {
    stat.allocated += by;
    stat.peak = std::max(stat.peak, stat.current);
  } else {
    stat.freed -= by;
  }
}

bool ReferenceAllocator::BySize::operator()(const Block* a, const Block* b) const {
  return std::tuple(owner->handles[a->stream], a->size, a->address) <
         std::tuple(owner->handles[b->stream], b->size, b->address);
}

bool ReferenceAllocator::ByAddress::operator()(const Block* a, const Block* b) const {
  return std::tuple(owner->handles[a->stream], a->address) <
         std::tuple(owner->handles[b->stream], b->address);
}

ReferenceAllocator::ReferenceAllocator(const AllocConfig& options, DeviceMemory& memory,
                                       EventClock& clock)
    : config(options),
      memory_(memory),
      clock_(clock),
      small_{true, {}, 0, std::set<Block*, BySize>({this}), std::set<Block*, ByAddress>({this})},
      large_{false, {}, 0, std::set<Block*, BySize>({this}), std::set<Block*, ByAddress>({this})} {}

ReferenceAllocator::~ReferenceAllocator() {
  for (Block* block : all_) delete block;
}

Bytes ReferenceAllocator::max_split() const {
  return config.max_split_size.value_or(std::numeric_limits<Bytes>::max());
}

std::optional<Bytes> ReferenceAllocator::limit() const {
  if (config.memory_fraction >= 1) return {};
  return static_cast<Bytes>(config.memory_fraction * static_cast<double>(memory_.total()));
}

bool ReferenceAllocator::collecting() const {
  return limit() && config.garbage_collection_threshold > 0;
}

void ReferenceAllocator::change(Stat PoolStats::*stat, const Pool& pool, std::int64_t by) {
  if (by == 0) return;
  PoolStats& kind = pool.small ? stats.small_pool : stats.large_pool;
  add(stats.all.*stat, by);
  add(kind.*stat, by);
}

void ReferenceAllocator::event(SegmentAction action, const Block& block, Address address,
                               Bytes size) {
  segments.push_back({action, block.pool->small ? PoolKind::small : PoolKind::large,
                      StreamId(block.stream), address, size});
}

ReferenceAllocator::Pool* ReferenceAllocator::pool_for(Bytes size, std::size_t stream) {
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) {
    if (route->second && *route->second != stream) continue;
    PrivatePool& pool = private_pools_[route->first];
    return size <= kSmallSize ? pool.small.get() : pool.large.get();
  }
  return size <= kSmallSize ? &small_ : &large_;
}

ReferenceAllocator::Block* ReferenceAllocator::malloc(Bytes requested, std::size_t stream) {
  if (routes_.empty()) process_events(false);
  const Bytes size = rounded(config, requested);
  const Bytes segment = size <= 1 * MiB   ? 2 * MiB
                        : size < 10 * MiB ? config.large_segment_size
                                          : (size + 2 * MiB - 1) / (2 * MiB) * (2 * MiB);
  Request request{
      requested, size, segment, stream, pool_for(size, stream), config.expandable_segments};
  Block* block = search(request);
  if (block == nullptr) {
    if (collecting()) collect_garbage();
    block = grow(request, false);
  }
  if (block == nullptr && !request.pool->owner) {
    for (PrivatePool& pool : private_pools_) {
      if (!pool.use_on_oom) continue;
      Request there = request;
      there.pool = request.pool->small ? pool.small.get() : pool.large.get();
      there.expandable = false;
      block = search(there);
      if (block == nullptr) continue;
      request = there;
      break;
    }
  }
  if (block == nullptr && release_oversize(request)) block = grow(request, false);
  if (block == nullptr && routes_.empty()) {
    release_cached();
    block = grow(request, true);
  }
  if (block == nullptr) {
    ++stats.num_ooms;
    return nullptr;
  }

  const Bytes remaining = block->size - size;
  bool split;
  if (request.pool->owner && private_pools_[*request.pool->owner].no_split) {
    split = false;
  } else if (request.pool->small || request.expandable) {
    split = remaining >= 512;
  } else {
    split = size < max_split() && remaining > 1 * MiB;
  }
  const bool was_split = block->split();
  if (split) {
    Block* rest = block;
    block = new_block(*rest, rest->address, size, rest->previous, rest);
    rest->address += size;
    rest->size -= size;
    insert(rest);
    if (!block->arena) {
      change(&PoolStats::inactive_split, *request.pool, was_split ? 0 : 1);
      change(&PoolStats::inactive_split_bytes, *request.pool, was_split ? -size : rest->size);
    }
  } else if (was_split && !block->arena) {
    change(&PoolStats::inactive_split, *request.pool, -1);
    change(&PoolStats::inactive_split_bytes, *request.pool, -block->size);
  }
  block->allocated = true;
  block->requested = requested;
  change(&PoolStats::allocation, *request.pool, 1);
  change(&PoolStats::allocated_bytes, *request.pool, block->size);
  change(&PoolStats::active, *request.pool, 1);
  change(&PoolStats::active_bytes, *request.pool, block->size);
  change(&PoolStats::requested_bytes, *request.pool, requested);
  if (block->size >= max_split()) add(stats.oversize_allocations, 1);
  return block;
}

ReferenceAllocator::Block* ReferenceAllocator::search(const Request& request) {
  Pool& pool = *request.pool;
  if (collecting()) ++pool.searches;
  Block key;
  key.stream = request.stream;
  key.size = request.size;
  auto hit = pool.free.lower_bound(&key);
  const auto usable = [&](auto at) {
    return at != pool.free.end() && (*at)->stream == request.stream;
  };
  if (!usable(hit)) return nullptr;
  if ((*hit)->arena && request.expandable) {
    const auto reach = [](const Block* block) {
      return block->size + (block->next && !block->next->mapped ? block->next->size : 0);
    };
    for (auto next = std::next(hit); (*hit)->arena && usable(next) && reach(*next) < reach(*hit);
         ++next) {
      hit = next;
    }
  } else {
    while (usable(hit) && (*hit)->arena) ++hit;
    if (!usable(hit)) return nullptr;
  }
  const bool oversize = request.size >= max_split();
  if (!oversize && (*hit)->size >= max_split()) return nullptr;
  if (oversize && (*hit)->size - request.size >= config.max_non_split_rounding) return nullptr;
  Block* block = *hit;
  pool.free.erase(hit);
  return block;
}

void ReferenceAllocator::record_stream(Block* block, std::size_t stream) {
  if (stream == block->stream) return;
  block->uses.insert(stream);
  if (!routes_.empty()) block->captured_uses.insert(stream);
}

void ReferenceAllocator::free(Block* block) {
  block->allocated = false;
  change(&PoolStats::allocation, *block->pool, -1);
  change(&PoolStats::allocated_bytes, *block->pool, -block->size);
  if (block->size >= max_split()) add(stats.oversize_allocations, -1);
  if (block->uses.empty()) {
    complete_free(block);
  } else if (routes_.empty()) {
    record_events(block);
  } else {
    deferred_.push_back(block);
  }
}

void ReferenceAllocator::record_events(Block* block) {
  for (const std::size_t stream : block->uses) {
    events_[stream].emplace_back(clock_.record(StreamId(stream)), block);
    ++block->events;
  }
  block->uses.clear();
  block->captured_uses.clear();
}

void ReferenceAllocator::flush_deferred() {
  for (Block* block : deferred_) {
    for (const std::size_t stream : block->captured_uses) block->uses.erase(stream);
    record_events(block);
    if (block->events == 0) complete_free(block);
  }
  deferred_.clear();
}

void ReferenceAllocator::process_events(bool wait) {
  flush_deferred();
  for (auto& [stream, queue] : events_) {
    while (!queue.empty()) {
      const auto [token, block] = queue.front();
      if (wait) {
        clock_.synchronize(token);
      } else if (!clock_.query(token)) {
        break;
      }
      queue.erase(queue.begin());
      if (--block->events == 0) complete_free(block);
    }
  }
}

void ReferenceAllocator::complete_free(Block* block) {
  const Bytes size = block->size;
  std::int64_t blocks = 0;
  Bytes bytes = 0;
  for (Block* neighbour : {block->previous, block->next}) {
    const Bytes subsumed = try_merge(block, neighbour);
    if (subsumed == 0) continue;
    blocks -= 1;
    bytes -= subsumed;
  }
  insert(block);
  if (block->split()) {
    blocks += 1;
    bytes += block->size;
  }
  if (!block->arena) {
    change(&PoolStats::inactive_split, *block->pool, blocks);
    change(&PoolStats::inactive_split_bytes, *block->pool, bytes);
  }
  change(&PoolStats::active, *block->pool, -1);
  change(&PoolStats::active_bytes, *block->pool, -size);
  change(&PoolStats::requested_bytes, *block->pool, -block->requested);
}

Bytes ReferenceAllocator::try_merge(Block* into, Block* from) {
  if (from == nullptr || !from->idle() || from->mapped != into->mapped) return 0;
  const Bytes size = from->size;
  if (from->mapped) {
    from->pool->free.erase(from);
  } else {
    from->pool->unmapped.erase(from);
  }
  if (into->previous == from) {
    into->address = from->address;
    into->previous = from->previous;
    if (into->previous) into->previous->next = into;
  } else {
    into->next = from->next;
    if (into->next) into->next->previous = into;
  }
  into->size += size;
  remove(from);
  return size;
}

void ReferenceAllocator::insert(Block* block) {
  block->searches_then = block->pool->searches;
  block->pool->free.insert(block);
}

ReferenceAllocator::Block* ReferenceAllocator::new_block(const Block& like, Address address,
                                                         Bytes size, Block* previous, Block* next) {
  Block* block = new Block;
  all_.insert(block);
  block->address = address;
  block->size = size;
  block->stream = like.stream;
  block->pool = like.pool;
  block->arena = like.arena;
  block->mapped = like.mapped;
  block->previous = previous;
  block->next = next;
  if (previous) previous->next = block;
  if (next) next->previous = block;
  return block;
}

void ReferenceAllocator::remove(Block* block) {
  all_.erase(block);
  delete block;
}

std::size_t ReferenceAllocator::create_pool(bool no_split, bool use_on_oom) {
  const std::size_t id = private_pools_.size();
  private_pools_.push_back(
      {std::make_unique<Pool>(Pool{true, id, 0, std::set<Block*, BySize>({this}),
                                   std::set<Block*, ByAddress>({this})}),
       std::make_unique<Pool>(Pool{false, id, 0, std::set<Block*, BySize>({this}),
                                   std::set<Block*, ByAddress>({this})}),
       no_split, use_on_oom});
  return id;
}

void ReferenceAllocator::begin_route(std::size_t pool, std::optional<std::size_t> stream) {
  routes_.emplace_back(pool, stream);
}

void ReferenceAllocator::end_route(std::size_t pool) {
  routes_.erase(std::find_if(routes_.begin(), routes_.end(),
                             [&](const auto& route) { return route.first == pool; }));
}

void ReferenceAllocator::reset_peak() {
  for (PoolStats* pool : {&stats.all, &stats.small_pool, &stats.large_pool}) {
    for (Stat* stat : {&pool->allocation, &pool->allocated_bytes, &pool->active,
                       &pool->active_bytes, &pool->requested_bytes, &pool->segment,
                       &pool->reserved_bytes, &pool->inactive_split, &pool->inactive_split_bytes}) {
      stat->peak = stat->current;
    }
  }
  for (Stat* stat : {&stats.oversize_allocations, &stats.oversize_segments}) {
    stat->peak = stat->current;
  }
}

Bytes ReferenceAllocator::largest_free_block() const {
  Bytes largest = 0;
  for (const Block* block : all_) {
    if (block->idle() && block->mapped) largest = std::max(largest, block->size);
  }
  return largest;
}

}  // namespace foregather::alloc::test
