// Keeps the statistics while mallocs and frees happen.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/alloc/ids.h"
#include "core/alloc/stats.h"

namespace foregather::alloc {

/// Only what cannot be derived is kept: sums over both kinds of pool and sums of decreases are put
/// together by stats().
class StatsRecorder {
 public:
  void allocated(PoolKind kind, Bytes block, Bytes requested) {
    Counters& pool = pools_[static_cast<std::size_t>(kind)];
    pool.sum.blocks += 1;
    pool.sum.bytes += block;
    pool.sum.requested += requested;
    raise(pool.level, block, requested);
    raise(all_, block, requested);
  }
  void free_requested(PoolKind kind, Bytes block) {
    Level& pool = pools_[static_cast<std::size_t>(kind)].level;
    pool.now.allocated -= block;
    pool.allocations -= 1;
    all_.now.allocated -= block;
    all_.allocations -= 1;
  }
  void free_completed(PoolKind kind, Bytes block, Bytes requested) {
    Level& pool = pools_[static_cast<std::size_t>(kind)].level;
    pool.now.active -= block;
    pool.now.requested -= requested;
    pool.actives -= 1;
    all_.now.active -= block;
    all_.now.requested -= requested;
    all_.actives -= 1;
  }
  /// Free blocks in split segments changed in number and bytes.
  void inactive_split(PoolKind kind, std::int64_t blocks, Bytes bytes) {
    Counters& pool = pools_[static_cast<std::size_t>(kind)];
    pool.sum.splits += std::max<std::int64_t>(blocks, 0);
    pool.sum.split_bytes += std::max<Bytes>(bytes, 0);
    change_split(pool.level, blocks, bytes);
    change_split(all_, blocks, bytes);
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
  struct Level {
    Usage now;
    Usage peak;
    std::int64_t allocations = 0, allocations_peak = 0;
    std::int64_t actives = 0, actives_peak = 0;
    std::int64_t splits = 0, splits_peak = 0;
    std::int64_t segments = 0, segments_peak = 0;
  };
  /// Sums of increases.
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
    level.peak.allocated = std::max(level.peak.allocated, level.now.allocated += block);
    level.peak.active = std::max(level.peak.active, level.now.active += block);
    level.peak.requested = std::max(level.peak.requested, level.now.requested += requested);
    level.allocations_peak = std::max(level.allocations_peak, level.allocations += 1);
    level.actives_peak = std::max(level.actives_peak, level.actives += 1);
  }
  static void change_split(Level& level, std::int64_t blocks, Bytes bytes) {
    level.splits_peak = std::max(level.splits_peak, level.splits += blocks);
    level.peak.inactive_split =
        std::max(level.peak.inactive_split, level.now.inactive_split += bytes);
  }
  static void add(Stat& stat, std::int64_t change);
  static void reset(Level& level);
  static PoolStats pool_stats(const Level& level, const Sums& sum);

  std::array<Counters, 2> pools_;  // by PoolKind
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
