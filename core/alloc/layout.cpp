#include "core/alloc/layout.h"

#include <algorithm>

#include "core/alloc/caching_allocator.h"

namespace foregather::alloc {
namespace {

// Streams of the events that each waiting block waits for.
std::vector<std::vector<StreamId>> awaited(const EventQueues& events, std::size_t rows) {
  std::vector<std::vector<StreamId>> out(rows);
  for (std::uint32_t stream = 0; stream < events.streams(); ++stream) {
    for (const EventQueues::Entry& entry : events.entries(stream)) {
      out[entry.block].push_back(StreamId(stream));
    }
  }
  return out;
}

}  // namespace

Layout CachingAllocator::layout() const {
  const auto waits = awaited(events_, blocks_.rows());
  Layout out;
  for (BlockIndex head = 1; head < blocks_.rows(); ++head) {
    if (!blocks_.in_use(head) || blocks_[head].previous != 0) continue;
    const Block& first = blocks_[head];
    const BlockList& list = lists_[first.list];
    SegmentLayout segment{
        first.address,      0, StreamId(list.stream), list.kind, pools_[list.pool].owner,
        first.expandable(), {}};
    for (BlockIndex index = head; index != 0; index = blocks_[index].next) {
      const Block& block = blocks_[index];
      BlockLayout part{block.state, block.address, block.size, 0, {}, {}};
      if (!block.idle()) {
        part.requested = block.requested;
        part.id = BlockId(index);
        part.uses = waits[index];
        for (std::uint32_t use = block.uses; use != kNone; use = uses_[use].next) {
          part.uses.push_back(StreamId(uses_[use].stream));
        }
      }
      segment.size += block.size;
      segment.blocks.push_back(std::move(part));
    }
    out.push_back(std::move(segment));
  }
  std::sort(out.begin(), out.end(),
            [](const SegmentLayout& a, const SegmentLayout& b) { return a.address < b.address; });
  return out;
}

}  // namespace foregather::alloc
