// Expandable segments: reserved address ranges whose parts get memory when needed.
#include <algorithm>
#include <cassert>

#include "core/alloc/caching_allocator.h"

namespace foregather::alloc {

BlockIndex CachingAllocator::allocate_expandable(const Request& request) {
  BlockIndex candidate = find_expandable(request);
  if (candidate == 0) return 0;
  // A run of idle blocks, mapped ones merged with their idle neighbours: either it starts with an
  // unmapped block, or with a mapped one that an unmapped one follows.
  if (blocks_[candidate].state == BlockState::unmapped &&
      !map_block(candidate, std::min(blocks_[candidate].size, request.size))) {
    return 0;
  }
  while (blocks_[candidate].size < request.size) {
    const BlockIndex next = blocks_[candidate].next;
    const Bytes missing = request.size - blocks_[candidate].size;
    if (!map_block(next, std::min(missing, blocks_[next].size))) return 0;
    candidate = next;
  }
  const Block& block = blocks_[candidate];
  lists_[block.list].free.erase(block.size, block.address);
  return candidate;
}

// The start of the lowest run of idle blocks, with or without memory, that is long enough.
BlockIndex CachingAllocator::find_expandable(const Request& request) {
  const UnmappedList& unmapped = lists_[request.list].unmapped;
  const auto long_enough = [&](BlockIndex from) {
    Bytes bytes = 0;
    for (BlockIndex at = from; bytes < request.size && blocks_[at].idle(); at = blocks_[at].next) {
      bytes += blocks_[at].size;
    }
    return bytes >= request.size;
  };
  for (std::size_t position = 0; position < unmapped.size(); ++position) {
    BlockIndex start = unmapped[position];
    const BlockIndex before = blocks_[start].previous;
    if (blocks_[before].idle()) start = before;
    if (long_enough(start)) return start;
  }
  return new_arena(request);
}

// Room for 9/8 of the device, so that parts can be unmapped low and mapped again high.
BlockIndex CachingAllocator::new_arena(const Request& request) {
  const Bytes granule = rounding_.granule(pools_[request.pool].kind);
  const Bytes size = round_up(memory_->total() + memory_->total() / 8, granule);
  ++calls_.reservations;
  const std::optional<Address> base = memory_->reserve(size, StreamId(request.stream));
  if (!base) return 0;
  assert(*base > 0 && *base % kMinBlockSize == 0 && *base + size <= FreeIndex::kAddressLimit);

  std::uint32_t arena;
  if (spare_arenas_.empty()) {
    arena = static_cast<std::uint32_t>(arenas_.size());
    arenas_.emplace_back();
  } else {
    arena = spare_arenas_.back();
    spare_arenas_.pop_back();
  }
  arenas_[arena] = {*base, size, granule};
  update_path();

  Block whole;
  whole.list = request.list;
  whole.arena = arena;
  return add_part(whole, *base, size, BlockState::unmapped, 0, 0);
}

// A new block of the list and arena of `of`, linked between its neighbours and listed
// according to its state. `of` is no row of the table.
BlockIndex CachingAllocator::add_part(const Block& of, Address address, Bytes size,
                                      BlockState state, BlockIndex previous, BlockIndex next) {
  const BlockIndex index = blocks_.acquire();
  Block& part = blocks_[index];
  part = Block{};
  part.address = address;
  part.size = size;
  part.previous = previous;
  part.next = next;
  part.list = of.list;
  part.kind = lists_[of.list].kind;
  part.arena = of.arena;
  part.state = state;
  blocks_[previous].next = index;
  blocks_[next].previous = index;
  if (state == BlockState::free) {
    insert_free(index);
  } else if (state == BlockState::unmapped) {
    lists_[part.list].unmapped.insert(address, index);
  }
  return index;
}

// Gives memory to the first `size` bytes of an unmapped block, rounded up to granules, and merges
// it with idle mapped neighbours. The block keeps its number and becomes free.
bool CachingAllocator::map_block(BlockIndex index, Bytes size) {
  const Block before = blocks_[index];
  const Arena& arena = arenas_[before.arena];
  const Bytes mapped = round_up(size, arena.granule);
  assert(before.state == BlockState::unmapped);
  // A hole of a restored state may hold no whole granule of this configuration.
  if (mapped > before.size) return false;
  ++calls_.maps;
  if (!memory_->map(before.address, mapped, arena.granule)) {
    ++calls_.failed_mallocs;
    return false;
  }
  calls_.granules += static_cast<std::uint32_t>(mapped / arena.granule);
  calls_.bytes_allocated += mapped;

  BlockList& list = lists_[before.list];
  list.unmapped.erase(before.address);
  if (mapped < before.size) {
    add_part(before, before.address + mapped, before.size - mapped, BlockState::unmapped, index,
             before.next);
  }
  Block& block = blocks_[index];
  block.size = mapped;
  block.state = BlockState::free;
  if (blocks_[block.previous].state == BlockState::free) merge(index, block.previous);
  if (blocks_[block.next].state == BlockState::free) merge(index, block.next);
  insert_free(index);
  recorder_.reserved(list.kind, 0, mapped);
  report(SegmentAction::map, before, before.address, mapped);
  return true;
}

// Takes the memory of the whole granules of a free block away; what sticks out stays free.
void CachingAllocator::unmap_block(BlockIndex index) {
  const Block before = blocks_[index];
  const Arena arena = arenas_[before.arena];
  const Bytes offset = before.address - arena.base;
  const Address begin = arena.base + round_up(offset, arena.granule);
  const Address end = arena.base + round_down(offset + before.size, arena.granule);
  if (begin >= end) return;
  const Bytes size = end - begin;
  memory_->unmap(begin, size);
  ++calls_.unmaps;
  calls_.granules += static_cast<std::uint32_t>(size / arena.granule);
  calls_.bytes_released += size;

  BlockList& list = lists_[before.list];
  list.free.erase(before.size, before.address);
  if (begin > before.address) {
    add_part(before, before.address, begin - before.address, BlockState::free, before.previous,
             index);
  }
  if (end < before.address + before.size) {
    add_part(before, end, before.address + before.size - end, BlockState::free, index, before.next);
  }
  Block& block = blocks_[index];
  block.address = begin;
  block.size = size;
  block.state = BlockState::unmapped;
  if (blocks_[block.previous].state == BlockState::unmapped) merge(index, block.previous);
  if (blocks_[block.next].state == BlockState::unmapped) merge(index, block.next);
  list.unmapped.insert(block.address, index);
  recorder_.reserved(list.kind, 0, -size);
  report(SegmentAction::unmap, before, begin, size);
  if (!block.split()) release_arena(index);
}

void CachingAllocator::insert_free(BlockIndex index) {
  Block& block = blocks_[index];
  BlockList& list = lists_[block.list];
  block.age_base = pools_[list.pool].searches;
  list.free.insert(block.size, block.address, index);
}

// The neighbour is idle and in the same state; it leaves its list and disappears. The block itself
// is in no list.
void CachingAllocator::merge(BlockIndex into, BlockIndex neighbour) {
  Block& block = blocks_[into];
  const Block& gone = blocks_[neighbour];
  BlockList& list = lists_[gone.list];
  if (gone.state == BlockState::free) {
    list.free.erase(gone.size, gone.address);
  } else {
    list.unmapped.erase(gone.address);
  }
  if (block.previous == neighbour) {
    block.address = gone.address;
    block.previous = gone.previous;
    blocks_[block.previous].next = into;
  } else {
    block.next = gone.next;
    blocks_[block.next].previous = into;
  }
  block.size += gone.size;
  blocks_.release(neighbour);
}

void CachingAllocator::release_arena(BlockIndex index) {
  const Block& block = blocks_[index];
  const Arena& arena = arenas_[block.arena];
  assert(block.address == arena.base && block.size == arena.size);
  ++calls_.reservations;
  memory_->unreserve(arena.base, arena.size);
  lists_[block.list].unmapped.erase(block.address);
  spare_arenas_.push_back(block.arena);
  blocks_.release(index);
}

}  // namespace foregather::alloc
