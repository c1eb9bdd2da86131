// A miss: the order of attempts to find memory.
#include <cassert>

#include "core/alloc/caching_allocator.h"

namespace foregather::alloc {

Allocation CachingAllocator::malloc_missed(Request request) {
  calls_dirty_ = true;
  path_ = Path::general;
  if (counts_searches_) collect_garbage();
  if (const BlockIndex found = allocate_segment(request, false)) return take_new(request, found);

  // Cached blocks of pools that offer themselves when memory is short, in order of creation. There
  // the rules of segments hold that are not expandable.
  if (request.pool < 2) {
    for (std::size_t id = 0; id < private_pools_.size(); ++id) {
      if (!private_pools_[id].options.use_on_oom) continue;
      Request there = request;
      there.pool = static_cast<std::uint32_t>(2 + 2 * id) + request.pool;
      there.list = list_of(there.pool, there.stream);
      there.expandable = false;
      FreeIndex::Position at;
      if (search(there, at)) return take_found(there, at);
    }
  }

  if (release_oversize(request)) {
    if (const BlockIndex found = allocate_segment(request, false)) return take_new(request, found);
  }
  if (routes_.empty()) {
    release_cached();
    if (const BlockIndex found = allocate_segment(request, true)) return take_new(request, found);
  }
  recorder_.out_of_memory();
  if (sink_ != nullptr) {
    sink_->out_of_memory(request.requested, StreamId(request.stream), memory_->available());
  }
  return {AllocStatus::out_of_memory, true};
}

// A free block in no list, or 0.
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
  block.address = *address;
  block.size = size;
  block.list = request.list;
  block.kind = pools_[request.pool].kind;
  block.state = BlockState::free;
  recorder_.reserved(block.kind, 1, size);
  if (size >= max_split_) recorder_.oversize_segment(+1);
  report(SegmentAction::alloc, block, *address, size);
  return index;
}

void CachingAllocator::report(SegmentAction action, const Block& block, Address address,
                              Bytes size) {
  if (sink_ == nullptr) return;
  const BlockList& list = lists_[block.list];
  sink_->segment({action, list.kind, StreamId(list.stream), address, size});
}

}  // namespace foregather::alloc
