// Its segments: made, mapped, given back.
#include <algorithm>
#include <memory>

#include "tests/unit/alloc/reference_allocator.h"

namespace foregather::alloc::test {

ReferenceAllocator::Block* ReferenceAllocator::grow(const Request& request, bool retry) {
  if (retry) ++stats.num_alloc_retries;
  if (limit() && stats.all.reserved_bytes.current + request.segment > *limit()) return nullptr;
  if (request.expandable) return grow_expandable(request);
  const auto address = memory_.allocate(request.segment, StreamId(request.stream));
  if (!address) return nullptr;
  Block like;
  like.stream = request.stream;
  like.pool = request.pool;
  Block* block = new_block(like, *address, request.segment, nullptr, nullptr);
  change(&PoolStats::segment, *request.pool, 1);
  change(&PoolStats::reserved_bytes, *request.pool, request.segment);
  if (request.segment >= max_split()) add(stats.oversize_segments, 1);
  ++stats.num_device_alloc;
  event(SegmentAction::alloc, *block, *address, request.segment);
  return block;
}

ReferenceAllocator::Block* ReferenceAllocator::grow_expandable(const Request& request) {
  Pool& pool = *request.pool;
  Block* candidate = nullptr;
  for (Block* hole : pool.unmapped) {
    if (hole->stream != request.stream) continue;
    Block* start = hole->previous && hole->previous->idle() ? hole->previous : hole;
    Bytes bytes = 0;
    for (Block* at = start; at && at->idle() && bytes < request.size; at = at->next) {
      bytes += at->size;
    }
    if (bytes < request.size) continue;
    candidate = start;
    break;
  }
  if (candidate == nullptr) {
    const Bytes granule = pool.small ? 2 * MiB : config.large_segment_size;
    const Bytes wanted = memory_.total() + memory_.total() / 8;
    const Bytes size = (wanted + granule - 1) / granule * granule;
    const auto base = memory_.reserve(size, StreamId(request.stream));
    if (!base) return nullptr;
    Block like;
    like.stream = request.stream;
    like.pool = &pool;
    like.mapped = false;
    like.arena = std::make_shared<Arena>(Arena{*base, size, granule});
    candidate = new_block(like, *base, size, nullptr, nullptr);
    pool.unmapped.insert(candidate);
  }
  if (!candidate->mapped && !map(candidate, std::min(candidate->size, request.size))) {
    return nullptr;
  }
  while (candidate->size < request.size) {
    Block* next = candidate->next;
    if (!map(next, std::min(request.size - candidate->size, next->size))) return nullptr;
    candidate = next;
  }
  pool.free.erase(candidate);
  return candidate;
}

bool ReferenceAllocator::map(Block* block, Bytes size) {
  const Bytes granule = block->arena->granule;
  const Bytes mapped = (size + granule - 1) / granule * granule;
  if (!memory_.map(block->address, mapped, granule)) return false;
  const Address address = block->address;
  Pool& pool = *block->pool;
  pool.unmapped.erase(block);
  if (mapped < block->size) {
    Block* rest = new_block(*block, address + mapped, block->size - mapped, block, block->next);
    pool.unmapped.insert(rest);
    block->size = mapped;
  }
  block->mapped = true;
  try_merge(block, block->previous);
  try_merge(block, block->next);
  insert(block);
  change(&PoolStats::reserved_bytes, pool, mapped);
  ++stats.num_device_alloc;
  event(SegmentAction::map, *block, address, mapped);
  return true;
}

void ReferenceAllocator::unmap(Block* block) {
  const Arena arena = *block->arena;
  Address begin = arena.base;
  while (begin < block->address) begin += arena.granule;
  Address end = begin;
  while (end + arena.granule <= block->address + block->size) end += arena.granule;
  if (begin >= end) return;
  memory_.unmap(begin, end - begin);
  Pool& pool = *block->pool;
  pool.free.erase(block);
  if (begin > block->address) {
    insert(new_block(*block, block->address, begin - block->address, block->previous, block));
  }
  if (end < block->address + block->size) {
    insert(new_block(*block, end, block->address + block->size - end, block, block->next));
  }
  block->address = begin;
  block->size = end - begin;
  block->mapped = false;
  try_merge(block, block->previous);
  try_merge(block, block->next);
  pool.unmapped.insert(block);
  change(&PoolStats::reserved_bytes, pool, begin - end);
  ++stats.num_device_free;
  event(SegmentAction::unmap, *block, begin, end - begin);
  if (block->split()) return;
  memory_.unreserve(arena.base, arena.size);
  pool.unmapped.erase(block);
  remove(block);
}

bool ReferenceAllocator::release_oversize(const Request& request) {
  if (!config.max_split_size) return false;
  Block key;
  key.stream = request.stream;
  key.size = std::max(request.size, max_split());
  auto& free = request.pool->free;
  auto at = free.lower_bound(&key);
  if (at != free.end() && (*at)->stream == request.stream && !(*at)->arena && !(*at)->split()) {
    release(*at);
    return true;
  }
  Bytes released = 0;
  while (at != free.begin() && released < key.size) {
    --at;
    Block* block = *at;
    if (block->stream != request.stream || block->size < max_split()) break;
    if (block->arena || block->split()) continue;
    ++at;
    released += block->size;
    release(block);
  }
  return released >= key.size;
}

void ReferenceAllocator::release(Block* block) {
  event(SegmentAction::free, *block, block->address, block->size);
  memory_.release(block->address, block->size);
  change(&PoolStats::segment, *block->pool, -1);
  change(&PoolStats::reserved_bytes, *block->pool, -block->size);
  if (block->size >= max_split()) add(stats.oversize_segments, -1);
  ++stats.num_device_free;
  block->pool->free.erase(block);
  remove(block);
}

void ReferenceAllocator::release_cached() {
  if (routes_.empty()) {
    ++stats.num_sync_all_streams;
    process_events(true);
    release_blocks(large_);
    release_blocks(small_);
  }
  for (PrivatePool& pool : private_pools_) {
    if (pool.users > 0) continue;
    release_blocks(*pool.small);
    release_blocks(*pool.large);
  }
}

void ReferenceAllocator::release_blocks(Pool& pool) {
  const std::vector<Block*> cached(pool.free.begin(), pool.free.end());
  std::vector<Block*> expandable;
  for (Block* block : cached) {
    if (block->arena) {
      expandable.push_back(block);
    } else if (!block->split()) {
      release(block);
    }
  }
  for (Block* block : expandable) unmap(block);
}

void ReferenceAllocator::collect_garbage() {
  const auto threshold =
      static_cast<Bytes>(config.garbage_collection_threshold * static_cast<double>(*limit()));
  const Bytes target = stats.all.reserved_bytes.current - threshold;
  if (target <= 0) return;
  const auto age = [&](const Block* block) {
    return static_cast<double>(large_.searches - block->searches_then);
  };
  double total = 0;
  double count = 0;
  for (const Block* block : large_.free) {
    if (block->split()) continue;
    total += age(block);
    count += 1;
  }
  Bytes reclaimed = 0;
  for (bool freed = true; reclaimed < target && freed && count > 0;) {
    freed = false;
    const double average = total / count;
    const std::vector<Block*> cached(large_.free.begin(), large_.free.end());
    for (Block* block : cached) {
      if (block->split() || block->arena || age(block) < average) continue;
      freed = true;
      reclaimed += block->size;
      total -= age(block);
      count -= 1;
      release(block);
    }
  }
}

}  // namespace foregather::alloc::test
