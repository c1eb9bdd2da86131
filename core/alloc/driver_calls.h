// What one operation of the allocator cost in calls to the driver, for whoever charges host time.
#pragma once

#include <cstdint>

#include "core/base/units.h"

namespace foregather::alloc {

/// Counts of one operation. All zero on the fast path.
struct DriverCalls {
  std::uint32_t mallocs = 0;         ///< cudaMalloc, failed attempts included
  std::uint32_t failed_mallocs = 0;  ///< of these (and of maps), the ones that found no memory
  std::uint32_t frees = 0;           ///< cudaFree; each synchronises the device
  std::uint32_t maps = 0;            ///< calls that mapped a range, failed attempts included
  std::uint32_t unmaps = 0;          ///< ranges unmapped; each waits for the block's stream
  std::uint32_t granules = 0;        ///< granules mapped and unmapped, 2 or 20 MiB each
  std::uint32_t reservations = 0;    ///< address ranges reserved or given back
  std::uint32_t event_records = 0;
  std::uint32_t event_queries = 0;
  std::uint32_t event_syncs = 0;  ///< events the host waited for
  Bytes bytes_allocated = 0;      ///< by mallocs and maps that succeeded
  Bytes bytes_released = 0;       ///< by frees and unmaps
  bool synchronized = false;      ///< all outstanding events were waited for
  bool retried = false;           ///< all cached memory was released and a second attempt was made
  bool collected = false;         ///< garbage collection released something

  friend bool operator==(const DriverCalls&, const DriverCalls&) = default;
};

}  // namespace foregather::alloc
