// A picture of the allocator's state: segments and what they are cut into.
#pragma once

#include <cstdint>
#include <vector>

#include "core/alloc/block_table.h"
#include "core/alloc/ids.h"

namespace foregather::alloc {

struct BlockLayout {
  BlockState state = BlockState::free;
  Address address = 0;
  Bytes size = 0;
  Bytes requested = 0;  ///< of an allocated or waiting block
  BlockId id;           ///< of an allocated or waiting block
  /// Streams it was used on (allocated), or whose events it waits for (waiting).
  std::vector<StreamId> uses;
  friend bool operator==(const BlockLayout&, const BlockLayout&) = default;
};

/// One segment from the driver, or one expandable segment with its unmapped parts. The blocks are
/// in order of address and fill it.
struct SegmentLayout {
  Address address = 0;
  Bytes size = 0;
  StreamId stream;
  PoolKind kind = PoolKind::large;
  PoolId pool;  ///< absent: the default pool
  bool expandable = false;
  std::vector<BlockLayout> blocks;
  friend bool operator==(const SegmentLayout&, const SegmentLayout&) = default;
};

/// In order of address.
using Layout = std::vector<SegmentLayout>;

}  // namespace foregather::alloc
