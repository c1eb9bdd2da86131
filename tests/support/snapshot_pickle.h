// PyTorch memory snapshots by hand.
#pragma once

#include <cstdint>
#include <optional>
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
  bool is_pending = false;  ///< freed, and another stream is not done with it
};

struct SnapshotConf {
  std::string text;  ///< PYTORCH_CUDA_ALLOC_CONF
  std::int64_t max_split_size = -1;
};

inline constexpr std::int64_t kSnapshotSegment = std::int64_t{1} << 40;

/// Of device 0, with one segment of 2 MiB of the small pool: `at_end` are its blocks, the rest of
/// it is free.
std::string snapshot_pickle(const std::vector<SnapshotEntry>& events,
                            const std::vector<SnapshotPiece>& at_end,
                            const std::optional<SnapshotConf>& conf = {});

/// Of a device that nothing happened to.
std::string empty_snapshot_pickle();

}  // namespace foregather::test
