// Giving cached memory back to the driver: everything, oversize blocks, old blocks.
#include <algorithm>
#include <cassert>

#include "core/alloc/caching_allocator.h"

namespace foregather::alloc {

DriverCalls CachingAllocator::empty_cache() {
  begin_operation();
  calls_dirty_ = true;
  path_ = Path::general;
  release_cached();
  return calls_;
}

// In order of (stream handle, size, address).
std::vector<BlockIndex> CachingAllocator::free_blocks(const Pool& pool) const {
  std::vector<std::uint32_t> lists = pool.lists;
  std::erase(lists, kNone);
  const auto handle = [this](std::uint32_t list) {
    const std::uint32_t stream = lists_[list].stream;
    return stream < stream_handles_.size() ? stream_handles_[stream] : stream;
  };
  std::stable_sort(lists.begin(), lists.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return handle(a) < handle(b); });
  std::vector<BlockIndex> out;
  for (const std::uint32_t list : lists) {
    const FreeIndex& free = lists_[list].free;
    FreeIndex::Position at;
    for (bool more = free.first(at); more; more = free.next(at)) out.push_back(free.block(at));
  }
  return out;
}

void CachingAllocator::release_cached() {
  if (routes_.empty()) {
    synchronize_events();
    release_pool_blocks(1);
    release_pool_blocks(0);
  }
  for (std::size_t id = 0; id < private_pools_.size(); ++id) {
    if (private_pools_[id].users > 0) continue;
    const auto pool = static_cast<std::uint32_t>(2 + 2 * id);
    release_pool_blocks(pool);
    release_pool_blocks(pool + 1);
  }
}

void CachingAllocator::release_pool_blocks(std::uint32_t pool) {
  const std::vector<BlockIndex> cached = free_blocks(pools_[pool]);
  for (const BlockIndex index : cached) {
    const Block& block = blocks_[index];
    if (!block.expandable() && !block.split()) release_segment(index);
  }
  for (const BlockIndex index : cached) {
    if (blocks_.in_use(index) && blocks_[index].expandable()) unmap_block(index);
  }
}

void CachingAllocator::release_segment(BlockIndex index) {
  const Block& block = blocks_[index];
  assert(block.state == BlockState::free && !block.split() && !block.expandable());
  report(SegmentAction::free, block, block.address, block.size);
  memory_->release(block.address, block.size);
  ++calls_.frees;
  calls_.bytes_released += block.size;
  BlockList& list = lists_[block.list];
  recorder_.reserved(list.kind, -1, -block.size);
  if (block.size >= max_split_) recorder_.oversize_segment(-1);
  list.free.erase(block.size, block.address);
  blocks_.release(index);
}

// One oversize block that is large enough, else as many as it takes, the largest first. What was
// released stays released even if it is not enough.
bool CachingAllocator::release_oversize(const Request& request) {
  if (!config_.max_split_size) return false;
  const Bytes wanted = std::max(request.size, max_split_);
  const FreeIndex& free = lists_[request.list].free;
  // A split oversize block can only come from switching expandable segments in the middle of a
  // run; PyTorch would hand a part of a segment to cudaFree.
  const auto releasable = [this](BlockIndex index) {
    return !blocks_[index].expandable() && !blocks_[index].split();
  };

  FreeIndex::Position at;
  bool more;
  if (free.lower_bound(wanted, at)) {
    if (releasable(free.block(at))) {
      release_segment(free.block(at));
      return true;
    }
    more = free.previous(at);
  } else {
    more = free.last(at);
  }
  Bytes released = 0;
  std::vector<BlockIndex> chosen;
  for (; more && released < wanted; more = free.previous(at)) {
    const BlockIndex index = free.block(at);
    if (blocks_[index].size < max_split_) break;
    if (!releasable(index)) continue;
    released += blocks_[index].size;
    chosen.push_back(index);
  }
  for (const BlockIndex index : chosen) release_segment(index);
  return released >= wanted;
}

// Releases unsplit large blocks of at least average age, pass by pass, until reserved memory is
// below the threshold or a pass finds nothing. The age of a block counts the searches made in its
// pool since it became free.
void CachingAllocator::collect_garbage() {
  const auto threshold =
      static_cast<Bytes>(config_.garbage_collection_threshold * static_cast<double>(*limit_));
  if (usage().reserved <= threshold) return;
  const Pool& pool = pools_[1];
  const auto age = [&](BlockIndex index) { return pool.searches - blocks_[index].age_base; };

  std::vector<BlockIndex> candidates = free_blocks(pool);
  std::erase_if(candidates, [this](BlockIndex index) { return blocks_[index].split(); });
  std::uint64_t total_age = 0;
  for (const BlockIndex index : candidates) total_age += age(index);

  bool found = true;
  while (usage().reserved > threshold && found && !candidates.empty()) {
    found = false;
    // age >= total_age / count, as it was at the start of the pass
    const std::uint64_t sum = total_age;
    const std::uint64_t count = candidates.size();
    std::erase_if(candidates, [&](BlockIndex index) {
      if (blocks_[index].expandable() || age(index) * count < sum) return false;
      total_age -= age(index);
      release_segment(index);
      found = true;
      return true;
    });
    calls_.collected |= found;
  }
}

}  // namespace foregather::alloc
