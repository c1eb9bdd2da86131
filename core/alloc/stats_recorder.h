// Keeps the statistics while mallocs and frees happen.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/alloc/ids.h"
#include "core/alloc/stats.h"

namespace foregather::alloc {

/// Only what cannot be derived is kept, in rows of eight numbers that change together: sums of
/// increases over both kinds of pool, and sums of decreases, are put together by stats().
///
/// Each operation changes a number at most once, so peaks may be looked at after the change.
class StatsRecorder {
 public:
  /// How the number and bytes of free blocks in split segments change with an operation.
  struct SplitChange {
    std::int64_t blocks = 0;
    Bytes bytes = 0;
  };

  void allocated(PoolKind kind, Bytes block, Bytes requested, SplitChange split) {
    const Row change{requested, block, block, 0, split.bytes, 1, 1, split.blocks};
    Row& sums = sums_[static_cast<std::size_t>(kind)];
    for (const Metric metric : {kRequested, kAllocated, kBlocks}) sums[metric] += change[metric];
    apply(kind, change);
  }
  /// A free that needs to wait for nothing.
  void freed(PoolKind kind, Bytes block, Bytes requested, SplitChange split) {
    apply(kind, {-requested, -block, -block, 0, split.bytes, -1, -1, split.blocks});
  }
  /// The two halves of a free that waits for events.
  void free_requested(PoolKind kind, Bytes block) { apply(kind, {0, -block, 0, 0, 0, -1, 0, 0}); }
  void free_completed(PoolKind kind, Bytes block, Bytes requested, SplitChange split) {
    apply(kind, {-requested, 0, -block, 0, split.bytes, 0, -1, split.blocks});
  }
  /// Memory came from (+) or went to (−) the driver; `segments` is 0 for expandable segments.
  void reserved(PoolKind kind, std::int64_t segments, Bytes bytes);
  /// A free block of a split segment was restored.
  void inactive_split(PoolKind kind, SplitChange split) {
    apply(kind, {0, 0, 0, 0, split.bytes, 0, 0, split.blocks});
  }

  void oversize_allocation(std::int64_t change) { add(oversize_allocations_, change); }
  void oversize_segment(std::int64_t change) { add(oversize_segments_, change); }
  void retried() { ++num_alloc_retries_; }
  void out_of_memory() { ++num_ooms_; }
  void synchronized() { ++num_sync_all_streams_; }

  Usage usage() const { return usage_of(all_.now); }
  Usage peak() const { return usage_of(all_.peak); }
  Bytes reserved() const { return all_.now[kReserved]; }
  Stats stats() const;
  void reset_peak();

 private:
  enum Metric : std::size_t {
    kRequested,
    kAllocated,
    kActive,
    kReserved,
    kSplitBytes,
    kBlocks,
    kActives,
    kSplits,
  };
  using Row = std::array<std::int64_t, 8>;
  struct Level {
    Row now{};
    Row peak{};
    Stat segments;
  };

  void apply(PoolKind kind, const Row& change) {
    Row& sums = sums_[static_cast<std::size_t>(kind)];
    for (const Metric metric : {kSplitBytes, kSplits}) {
      sums[metric] += std::max<std::int64_t>(change[metric], 0);
    }
    shift(pools_[static_cast<std::size_t>(kind)], change);
    shift(all_, change);
  }
  static void shift(Level& level, const Row& change) {
    std::int64_t room = 0;  // negative if any number exceeds its peak
    for (std::size_t i = 0; i < change.size(); ++i) {
      level.now[i] += change[i];
      room |= level.peak[i] - level.now[i];
    }
    if (room < 0) [[unlikely]] raise_peaks(level);
  }
  static void raise_peaks(Level& level);
  static void add(Stat& stat, std::int64_t change);
  static Usage usage_of(const Row& row) {
    return {row[kRequested], row[kAllocated], row[kActive], row[kReserved], row[kSplitBytes]};
  }
  static PoolStats pool_stats(const Level& level, const Row& sums);

  std::array<Level, 2> pools_;  ///< by PoolKind
  Level all_;
  std::array<Row, 2> sums_{};  ///< of increases, by PoolKind; kActive and kActives are not kept
  Stat oversize_allocations_;
  Stat oversize_segments_;
  std::int64_t num_alloc_retries_ = 0;
  std::int64_t num_ooms_ = 0;
  std::int64_t num_sync_all_streams_ = 0;
  std::int64_t num_device_alloc_ = 0;
  std::int64_t num_device_free_ = 0;
};

}  // namespace foregather::alloc
