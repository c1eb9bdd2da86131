// Keeps the statistics while mallocs and frees happen.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/alloc/ids.h"
#include "core/alloc/stats.h"

namespace foregather::alloc {

/// Only what cannot be derived is kept: sums of increases over both kinds of pool and sums of
/// decreases are put together by stats(). This is a third of the cost of a malloc, so peaks are
/// compared all at once: they rarely move.
class StatsRecorder {
 public:
  /// How the number and bytes of free blocks in split segments change with an operation.
  struct SplitChange {
    std::int64_t blocks = 0;
    Bytes bytes = 0;
  };

  void allocated(PoolKind kind, Bytes block, Bytes requested, SplitChange split) {
    Counters& pool = pools_[static_cast<std::size_t>(kind)];
    pool.sum.blocks += 1;
    pool.sum.bytes += block;
    pool.sum.requested += requested;
    raise(pool.level, block, requested);
    raise(all_, block, requested);
    inactive_split(kind, split);
  }
  /// A free that needs to wait for nothing.
  void freed(PoolKind kind, Bytes block, Bytes requested, SplitChange split) {
    free_requested(kind, block);
    free_completed(kind, block, requested, split);
  }
  /// The two halves of a free that waits for events.
  void free_requested(PoolKind kind, Bytes block) {
    for (Level* level : {&pools_[static_cast<std::size_t>(kind)].level, &all_}) {
      level->now.allocated -= block;
      level->allocations.now -= 1;
    }
  }
  void free_completed(PoolKind kind, Bytes block, Bytes requested, SplitChange split) {
    for (Level* level : {&pools_[static_cast<std::size_t>(kind)].level, &all_}) {
      level->now.active -= block;
      level->now.requested -= requested;
      level->actives.now -= 1;
    }
    inactive_split(kind, split);
  }
  /// Only the free blocks in split segments change.
  void inactive_split(PoolKind kind, SplitChange split) {
    Counters& pool = pools_[static_cast<std::size_t>(kind)];
    pool.sum.splits += std::max<std::int64_t>(split.blocks, 0);
    pool.sum.split_bytes += std::max<Bytes>(split.bytes, 0);
    for (Level* level : {&pool.level, &all_}) {
      level->splits.now += split.blocks;
      level->now.inactive_split += split.bytes;
      const std::int64_t room = (level->splits.peak - level->splits.now) |
                                (level->peak.inactive_split - level->now.inactive_split);
      if (room < 0) [[unlikely]]
        raise_peaks(*level);
    }
  }
  /// Memory came from (+) or went to (−) the driver; `segments` is 0 for expandable segments.
  void reserved(PoolKind kind, std::int64_t segments, Bytes bytes);

  void oversize_allocation(std::int64_t change) { add(oversize_allocations_, change); }
  void oversize_segment(std::int64_t change) { add(oversize_segments_, change); }
  void retried() { ++num_alloc_retries_; }
  void out_of_memory() { ++num_ooms_; }
  void synchronized() { ++num_sync_all_streams_; }

  const Usage& usage() const { return all_.now; }
  const Usage& peak() const { return all_.peak; }
  Stats stats() const;
  void reset_peak();

 private:
  struct Count {
    std::int64_t now = 0;
    std::int64_t peak = 0;
  };
  struct Level {
    Usage now;
    Usage peak;
    Count allocations, actives, splits, segments;
  };
  /// Of increases.
  struct Sums {
    std::int64_t blocks = 0;
    Bytes bytes = 0;
    Bytes requested = 0;
    std::int64_t splits = 0;
    Bytes split_bytes = 0;
    std::int64_t segments = 0;
    Bytes reserved = 0;
  };
  struct Counters {
    Level level;
    Sums sum;
  };

  static void raise(Level& level, Bytes block, Bytes requested) {
    level.now.allocated += block;
    level.now.active += block;
    level.now.requested += requested;
    level.allocations.now += 1;
    level.actives.now += 1;
    const std::int64_t room =
        (level.peak.allocated - level.now.allocated) | (level.peak.active - level.now.active) |
        (level.peak.requested - level.now.requested) |
        (level.allocations.peak - level.allocations.now) | (level.actives.peak - level.actives.now);
    if (room < 0) [[unlikely]]
      raise_peaks(level);
  }
  static void raise_peaks(Level& level);
  static void reset(Level& level);
  static void add(Stat& stat, std::int64_t change);
  static PoolStats pool_stats(const Level& level, const Sums& sums);

  std::array<Counters, 2> pools_;  ///< by PoolKind
  Level all_;
  Stat oversize_allocations_;
  Stat oversize_segments_;
  std::int64_t num_alloc_retries_ = 0;
  std::int64_t num_ooms_ = 0;
  std::int64_t num_sync_all_streams_ = 0;
  std::int64_t num_device_alloc_ = 0;
  std::int64_t num_device_free_ = 0;
};

}  // namespace foregather::alloc
