// The allocator's statistics.
#pragma once

#include <array>
#include <cstdint>

#include "core/base/units.h"

namespace foregather::alloc {

/// One counter: its present value, its greatest value since the last reset, and the sums of all
/// increases and decreases.
struct Stat {
  std::int64_t current = 0;
  std::int64_t peak = 0;
  std::int64_t allocated = 0;
  std::int64_t freed = 0;
  friend bool operator==(const Stat&, const Stat&) = default;
};

/// The counters kept for each kind of pool and for all together, under the names that
/// torch.cuda.memory_stats() gives them.
struct PoolStats {
  Stat allocation;            ///< blocks handed out: +malloc, −free
  Stat allocated_bytes;       ///< their sizes, rounding and unsplit slack included
  Stat active;                ///< the same, and blocks whose free waits for events
  Stat active_bytes;          ///<
  Stat requested_bytes;       ///< as asked for: +malloc, −completed free
  Stat segment;               ///< segments from the driver; expandable ones are not counted
  Stat reserved_bytes;        ///< memory from the driver
  Stat inactive_split;        ///< free blocks that are a part of a segment (not expandable ones)
  Stat inactive_split_bytes;  ///<
  friend bool operator==(const PoolStats&, const PoolStats&) = default;
};

/// Everything, as torch.cuda.memory_stats() has it.
struct Stats {
  PoolStats all;
  PoolStats small_pool;
  PoolStats large_pool;
  Stat oversize_allocations;  ///< blocks of at least max_split_size handed out
  Stat oversize_segments;
  std::int64_t num_alloc_retries = 0;
  std::int64_t num_ooms = 0;
  std::int64_t num_sync_all_streams = 0;
  std::int64_t num_device_alloc = 0;  ///< successful cudaMallocs and maps
  std::int64_t num_device_free = 0;   ///< cudaFrees and unmaps
  friend bool operator==(const Stats&, const Stats&) = default;
};

/// Bytes of all pools at one moment: what a memory timeline draws.
struct Usage {
  Bytes requested = 0;
  Bytes allocated = 0;
  Bytes active = 0;
  Bytes reserved = 0;
  Bytes inactive_split = 0;
  friend bool operator==(const Usage&, const Usage&) = default;
};

}  // namespace foregather::alloc
