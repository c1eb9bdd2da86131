// Recordings of random programs, made by the allocator itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/alloc/recording.h"

namespace foregather::alloc::test {

struct RandomProgram {
  std::string conf;
  Bytes capacity = 0;  ///< small: memory runs out
  std::size_t streams = 1;
  int calls = 300;
  bool defers = false;            ///< blocks are used on other streams
  bool names_empty_cache = true;  ///< stacks are recorded
  bool switches_expandable = false;
  std::uint32_t seed = 1;
};

/// What a snapshot of such a program holds, and the true state before each event that is the first
/// of an operation.
struct RandomRecording {
  Recording recording;
  std::vector<std::pair<std::size_t, Layout>> before;  ///< event, state
  std::int64_t retries = 0, empty_caches = 0;
};

RandomRecording record(const RandomProgram& program);

/// The same without the first `dropped` events: what a ring buffer would have kept.
Recording cut(const Recording& recording, std::size_t dropped);

/// A layout as snapshots show it: expandable segments as mapped ranges.
Layout as_recorded(const Layout& layout);

}  // namespace foregather::alloc::test
