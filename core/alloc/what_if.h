// A recorded program under another configuration of the allocator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/alloc/replay.h"

namespace foregather::alloc {

enum class WhatIfStart : std::uint8_t {
  recorded,  ///< the state at the start of the window, cached segments included
  cold,      ///< an empty allocator: live blocks are allocated first, by address
};

struct WhatIf {
  AllocConfig config;
  WhatIfStart start = WhatIfStart::recorded;
  /// Bytes of device memory for the allocator; absent: no limit.
  std::optional<Bytes> capacity;
};

struct WhatIfFigures {
  Usage peak;
  Usage at_end;
  std::size_t segment_events = 0;
  std::int64_t retries = 0;
  std::int64_t ooms = 0;                 ///< requests that found no memory
  std::int64_t recorded_ooms = 0;        ///< requests that found none when they were recorded
  std::optional<std::size_t> first_oom;  ///< event; absent: none, or one of a cold start's blocks
  /// First 16 digits of SHA-256 over "id:address:block size;" of every allocation, id counting from
  /// 0 with the blocks of a cold start first.
  std::string address_digest;

  /// The share of the reserved peak that no block used at the peak of use: 0 … 1.
  double fragmentation() const;
};

/// Replays the program's mallocs and frees in recorded order. Recorded segment events do not count,
/// except an explicit release of the cache. New segments lie at ascending addresses from 2^40 (or
/// above the recorded ones), 2 MiB aligned and never used again; expandable ones at 2^50 + k ×
/// 2^44.
///
/// A request that ran out of memory when it was recorded is made if there is a capacity, and what
/// it gets is given back at once: the program went on without. A request that runs out only now has
/// no block, and its free is left out. A memory fraction is a share of the capacity.
///
/// `replayed` is the replay of the same recording: the start state and where the cache was emptied.
/// From a cold start only a release whose stack names empty_cache counts. Errors: a state whose
/// addresses leave no room for new ones.
Result<WhatIfFigures> what_if(const Recording& recording, const Replay& replayed,
                              const WhatIf& question);

}  // namespace foregather::alloc
