// PyTorch memory snapshots by hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/units.h"

namespace foregather::test {

struct SnapshotEntry {
  const char* action;
  Bytes offset;          ///< in the segment
  Bytes size;            ///< as requested
  std::int64_t time_us;  ///< 0: not recorded, as in old files
};

struct SnapshotPiece {
  Bytes size;
  bool is_allocated;
};

inline constexpr std::int64_t kSnapshotSegment = std::int64_t{1} << 40;

/// Of device 0, with one segment of 2 MiB of the small pool: `at_end` are its blocks, the rest of
/// it is free.
std::string snapshot_pickle(const std::vector<SnapshotEntry>& events,
                            const std::vector<SnapshotPiece>& at_end);

}  // namespace foregather::test
