// Handles of the caching allocator.
#pragma once

#include <cstdint>

#include "core/base/ids.h"
#include "core/base/units.h"

namespace foregather::alloc {

// Declared here: of a name that is first met inside Id<struct …>, an outer namespace may have one.
struct StreamTag;
struct BlockTag;
struct PoolTag;

/// A device address in bytes. Signed, like every size, so that differences need no cast; real
/// device addresses fit (at most 57 bits).
using Address = std::int64_t;

/// A stream of one device: 0, 1, 2, … without large gaps (tables are indexed by it). Its place in
/// the allocator's ordering is its handle, see CachingAllocator::set_stream_handle.
using StreamId = Id<StreamTag>;

/// A block that a malloc handed out. Valid until its free; then the number may be used again.
using BlockId = Id<BlockTag>;

/// A private pool (CUDA graph or user memory pool).
using PoolId = Id<PoolTag>;

/// Which half of a pool a block belongs to; decided by its rounded size (rounding.h).
enum class PoolKind : std::uint8_t { small, large };

}  // namespace foregather::alloc
