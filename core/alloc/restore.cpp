// Taking over a state that was recorded.
#include <algorithm>

#include "core/alloc/caching_allocator.h"

namespace foregather::alloc {
namespace {

Status check(const SegmentLayout& segment) {
  const auto broken = [&](std::string_view what) {
    return fail("segment at {:#x}: {}", segment.address, what);
  };
  if (segment.pool) return broken("a private pool cannot be restored");
  if (!segment.stream) return broken("it has no stream");
  if (segment.blocks.empty()) return broken("it has no blocks");
  if (segment.address <= 0 || segment.address + segment.size > FreeIndex::kAddressLimit ||
      segment.size >= FreeIndex::kSizeLimit + FreeIndex::kSizeLimit / 8) {
    return broken("its address or size is out of range");
  }
  Address end = segment.address;
  BlockState before = BlockState::allocated;
  for (const BlockLayout& block : segment.blocks) {
    if (block.address != end) return broken("its blocks do not touch");
    if (block.size <= 0 || block.size % kMinBlockSize != 0) {
      return broken("a block's size is no multiple of 512");
    }
    if (block.state == before && (before == BlockState::free || before == BlockState::unmapped)) {
      return broken("neighbouring idle blocks are not merged");
    }
    if (block.state == BlockState::unmapped && !segment.expandable) {
      return broken("unmapped memory outside an expandable segment");
    }
    if (block.state == BlockState::waiting && block.uses.empty()) {
      return broken("a block waits for no stream");
    }
    end += block.size;
    before = block.state;
  }
  if (end != segment.address + segment.size) return broken("its blocks do not fill it");
  return {};
}

}  // namespace

Result<std::vector<BlockId>> CachingAllocator::restore(const Layout& layout) {
  assert(blocks_.rows() == 1 && "restore needs a fresh allocator");
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (const Status status = check(layout[i]); !status) return tl::unexpected(status.error());
    if (i > 0 && layout[i - 1].address + layout[i - 1].size > layout[i].address) {
      return fail("segment at {:#x} overlaps the one before it", layout[i].address);
    }
  }
  std::vector<BlockId> ids;
  for (const SegmentLayout& segment : layout) restore_segment(segment, ids);
  update_path();
  return ids;
}

void CachingAllocator::restore_segment(const SegmentLayout& segment, std::vector<BlockId>& ids) {
  Block like;
  like.list = list_of(static_cast<std::uint32_t>(segment.kind), segment.stream.row());
  Bytes mapped = 0;
  for (const BlockLayout& block : segment.blocks) {
    if (block.state != BlockState::unmapped) mapped += block.size;
  }
  if (segment.expandable) {
    like.arena = static_cast<std::uint32_t>(arenas_.size());
    arenas_.push_back({segment.address, segment.size, rounding_.granule(segment.kind)});
  } else if (segment.size >= max_split_) {
    recorder_.oversize_segment(+1);
  }
  recorder_.reserved(segment.kind, segment.expandable ? 0 : 1, mapped);

  BlockIndex previous = 0;
  for (const BlockLayout& block : segment.blocks) {
    previous = add_part(like, block.address, block.size, block.state, previous, 0);
    if (block.state == BlockState::unmapped) continue;
    if (block.state == BlockState::free) {
      if (segment.blocks.size() > 1 && !segment.expandable) {
        recorder_.inactive_split(segment.kind, {1, block.size});
      }
      continue;
    }
    Block& live = blocks_[previous];
    live.requested = block.requested;
    recorder_.allocated(segment.kind, block.size, block.requested, {});
    if (block.size >= max_split_) recorder_.oversize_allocation(+1);
    for (const StreamId use : block.uses) uses_.add(live.uses, use.row(), false);
    ids.push_back(BlockId(previous));
    if (block.state == BlockState::allocated) continue;
    recorder_.free_requested(segment.kind, block.size);
    if (block.size >= max_split_) recorder_.oversize_allocation(-1);
    record_events(previous);
  }
}

}  // namespace foregather::alloc
