// A miss: the order of attempts to find memory.
#include <cassert>

#include "core/alloc/caching_allocator.h"

namespace foregather::alloc {

BlockIndex CachingAllocator::allocate_from_driver(Request& request) {
  if (counts_searches_) collect_garbage();
  if (const BlockIndex found = allocate_segment(request, false)) return found;
  if (const BlockIndex found = take_from_overflow_pool(request)) return found;
  if (release_oversize(request)) {
    if (const BlockIndex found = allocate_segment(request, false)) return found;
  }
  if (!routes_.empty()) return 0;
  release_cached();
  return allocate_segment(request, true);
}

BlockIndex CachingAllocator::allocate_segment(const Request& request, bool retry) {
  if (retry) {
    recorder_.retried();
    calls_.retried = true;
  }
  // Expandable segments pass this gate with the size that they would have had.
  const Bytes size = rounding_.segment_size(request.size);
  if (limit_ && usage().reserved + size > *limit_) return 0;
  if (request.expandable) return allocate_expandable(request);

  ++calls_.mallocs;
  const std::optional<Address> address = memory_->allocate(size, StreamId(request.stream));
  if (!address) {
    ++calls_.failed_mallocs;
    return 0;
  }
  assert(*address > 0 && *address % kMinBlockSize == 0);
  assert(*address + size <= FreeIndex::kAddressLimit);
  calls_.bytes_allocated += size;
  const BlockIndex index = blocks_.acquire();
  Block& block = blocks_[index];
  block = Block{};
  block.state = BlockState::free;
  block.address = *address;
  block.size = size;
  block.stream = request.stream;
  block.pool = static_cast<std::uint16_t>(request.pool);
  recorder_.reserved(pools_[request.pool].kind, 1, size);
  if (size >= max_split_) recorder_.oversize_segment(+1);
  report(SegmentAction::alloc, block, *address, size);
  return index;
}

// Cached blocks of pools that offer themselves when memory is short, in order of creation. Their
// segments are not expandable ones.
BlockIndex CachingAllocator::take_from_overflow_pool(Request& request) {
  if (pools_[request.pool].owner) return 0;
  for (std::size_t id = 0; id < private_pools_.size(); ++id) {
    if (!private_pools_[id].options.use_on_oom) continue;
    Request there = request;
    there.pool = static_cast<std::uint32_t>(2 + 2 * id) + request.pool;
    there.expandable = false;
    if (const BlockIndex found = take_cached_slow(there)) {
      request = there;
      return found;
    }
  }
  return 0;
}

void CachingAllocator::report(SegmentAction action, const Block& block, Address address,
                              Bytes size) {
  if (sink_ == nullptr) return;
  sink_->segment({action, pools_[block.pool].kind, StreamId(block.stream), address, size});
}

}  // namespace foregather::alloc
