// All blocks of an allocator: a dense table with a list of unused rows.
#pragma once

#include <cassert>
#include <cstdint>
#include <vector>

#include "core/alloc/free_index.h"
#include "core/alloc/ids.h"

namespace foregather::alloc {

inline constexpr std::uint32_t kNone = 0xffffffffU;

enum class BlockState : std::uint8_t {
  allocated,  ///< handed out; also the border row
  waiting,    ///< freed, but events (or the end of a graph capture) are outstanding
  free,       ///< idle and backed by memory: in the free index
  unmapped,   ///< idle addresses of an expandable segment: in the unmapped list
};

/// A part of a segment. One cache line.
struct alignas(64) Block {
  Address address = 0;
  Bytes size = 0;              ///< 0: the row is unused
  Bytes requested = 0;         ///< of the latest malloc
  std::uint64_t age_base = 0;  ///< searches made in the pool when it became free
  BlockIndex previous = 0;     ///< neighbours in the segment; 0: the segment ends here
  BlockIndex next = 0;
  std::uint32_t list = 0;       ///< BlockList of its pool and stream; never changes
  std::uint32_t arena = kNone;  ///< expandable segment, or kNone
  std::uint32_t uses = kNone;   ///< first of the other streams that used it (StreamUses)
  std::uint32_t events = 0;     ///< outstanding
  BlockState state = BlockState::allocated;
  PoolKind kind = PoolKind::small;  ///< of its list

  bool split() const { return (previous | next) != 0; }
  bool expandable() const { return arena != kNone; }
  bool idle() const { return state >= BlockState::free; }
};

/// Row 0 is the border: the neighbour of every segment's ends. It counts as allocated, so nothing
/// merges with it, and linking may write to it; its own links mean nothing.
class BlockTable {
 public:
  BlockTable() : blocks_(1) {}

  Block& operator[](BlockIndex index) {
    assert(index < blocks_.size());
    return blocks_[index];
  }
  const Block& operator[](BlockIndex index) const {
    assert(index < blocks_.size());
    return blocks_[index];
  }

  /// A row with unspecified contents but no uses and no events. References to other rows become
  /// invalid.
  BlockIndex acquire() {
    const BlockIndex index = spare_;
    if (index == 0) {
      blocks_.emplace_back();
      return static_cast<BlockIndex>(blocks_.size() - 1);
    }
    spare_ = blocks_[index].next;
    return index;
  }
  void release(BlockIndex index) {
    blocks_[index].size = 0;
    blocks_[index].next = spare_;
    spare_ = index;
  }
  bool in_use(BlockIndex index) const { return blocks_[index].size > 0; }
  /// Rows including unused ones and the border.
  std::size_t rows() const { return blocks_.size(); }

 private:
  std::vector<Block> blocks_;
  BlockIndex spare_ = 0;  ///< first unused row; they are linked by `next`
};

}  // namespace foregather::alloc
