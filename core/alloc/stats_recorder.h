// Keeps the statistics while mallocs and frees happen.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/alloc/ids.h"
#include "core/alloc/stats.h"

namespace foregather::alloc {

/// Only what cannot be derived is kept: what blocks add up to since the start, handed out and
/// freed, by kind of pool. Peaks are not compared each time: a level has room for what may be
/// handed out before any of its peaks could rise.
class StatsRecorder {
 public:
  /// How the number and bytes of free blocks in split segments change with an operation.
  struct SplitChange {
    std::int64_t blocks = 0;
    Bytes bytes = 0;
  };

  [[gnu::always_inline]] void allocated(PoolKind kind, Bytes block, Bytes requested,
                                        SplitChange split) {
    Pool& pool = pools_[static_cast<std::size_t>(kind)];
    pool.allocated.blocks += 1;
    pool.allocated.bytes += block;
    pool.allocated.requested += requested;
    std::int64_t least_room = take(all_.room, block);
    if (is_detailed_) {
      least_room |= take(pool.level.room, block);
      inactive_split(kind, split);
    }
    if (least_room < 0) [[unlikely]]
      raise_taken(pool);
  }
  /// A free that needs to wait for nothing.
  [[gnu::always_inline]] void freed(PoolKind kind, Bytes block, Bytes requested,
                                    SplitChange split) {
    Pool& pool = pools_[static_cast<std::size_t>(kind)];
    pool.freed.blocks += 1;
    pool.freed.bytes += block;
    pool.freed.requested += requested;
    give(all_.room, requested);  // a block has at least that
    if (!is_detailed_) return;
    give(pool.level.room, requested);
    inactive_split(kind, split);
  }
  /// The two halves of a free that waits for events. Neither gives room to all peaks.
  void free_requested(PoolKind kind, Bytes block) {
    Pool& pool = pools_[static_cast<std::size_t>(kind)];
    pool.freed.blocks += 1;
    pool.freed.bytes += block;
    pool.waiting.blocks += 1;
    pool.waiting.bytes += block;
  }
  void free_completed(PoolKind kind, Bytes block, Bytes requested, SplitChange split) {
    Pool& pool = pools_[static_cast<std::size_t>(kind)];
    pool.waiting.blocks -= 1;
    pool.waiting.bytes -= block;
    pool.freed.requested += requested;
    inactive_split(kind, split);
  }
  /// From now on nothing is kept but usage() and peak(), without inactive_split: quicker.
  void keep_usage_only() { is_detailed_ = false; }
  bool keeps_usage_only() const { return !is_detailed_; }
  /// allocated() and freed() where nothing else is kept.
  void took(Bytes block, Bytes requested) {
    pools_[0].allocated.bytes += block;
    pools_[0].allocated.requested += requested;
    if ((all_.room.bytes -= block) < 0) [[unlikely]]
      raise_usage();
  }
  void gave(Bytes block, Bytes requested) {
    pools_[0].freed.bytes += block;
    pools_[0].freed.requested += requested;
    all_.room.bytes += requested;  // a block has at least that
  }
  /// Only the free blocks in split segments change.
  void inactive_split(PoolKind kind, SplitChange split) {
    Pool& pool = pools_[static_cast<std::size_t>(kind)];
    pool.splits.blocks += split.blocks;
    pool.splits.bytes += split.bytes;
    pool.added_splits.blocks += std::max<std::int64_t>(split.blocks, 0);
    pool.added_splits.bytes += std::max<Bytes>(split.bytes, 0);
    if ((take(pool.level.split_room, split) | take(all_.split_room, split)) < 0) [[unlikely]]
      raise_splits(pool);
  }
  /// Memory came from (+) or went to (−) the driver; `segments` is 0 for expandable segments.
  void reserved(PoolKind kind, std::int64_t segments, Bytes bytes);

  void oversize_allocation(std::int64_t change) { add(oversize_allocations_, change); }
  void oversize_segment(std::int64_t change) { add(oversize_segments_, change); }
  void retried() { ++num_alloc_retries_; }
  void out_of_memory() { ++num_ooms_; }
  void synchronized() { ++num_sync_all_streams_; }

  Usage usage() const;
  const Usage& peak() const { return all_.peak; }
  Stats stats() const;
  void reset_peak();

 private:
  struct Amount {
    std::int64_t blocks = 0;
    Bytes bytes = 0;
    Bytes requested = 0;
  };
  /// Of blocks handed out, of those and the ones that wait, of idle parts, and of segments.
  struct Counts {
    std::int64_t allocations = 0, actives = 0, splits = 0, segments = 0;
  };
  /// Before a peak could rise, of whatever is handed out or active: never more than there is.
  struct Room {
    Bytes bytes = 0;
    std::int64_t blocks = 0;
  };
  struct Level {
    Usage peak;
    Counts peak_counts;
    Room room, split_room;
  };
  struct Pool {
    Amount allocated, freed;   ///< since the start; requested bytes are freed with the block
    Room waiting;              ///< freed, but active until events have happened
    SplitChange splits;        ///< free parts of segments
    SplitChange added_splits;  ///< their increases since the start
    std::int64_t segments = 0, added_segments = 0;
    Bytes reserved = 0, added_reserved = 0;
    Level level;
  };
  struct Now {
    Usage bytes;
    Counts counts;
  };

  // The sign bit says that there was too little.
  static std::int64_t take(Room& room, Bytes bytes) {
    room.bytes -= bytes;
    room.blocks -= 1;
    return room.bytes | room.blocks;
  }
  static void give(Room& room, Bytes bytes) {
    room.bytes += bytes;
    room.blocks += 1;
  }
  static std::int64_t take(Room& room, SplitChange split) {
    room.bytes -= split.bytes;
    room.blocks -= split.blocks;
    return room.bytes | room.blocks;
  }
  /// What is handed out, and what is active.
  struct Taken {
    Bytes requested = 0, allocated = 0, active = 0;
    std::int64_t allocations = 0, actives = 0;
  };

  static Taken taken(const Pool& pool);
  static Now now(const Pool& pool);
  Now now() const;
  void raise_taken(Pool& pool);
  void raise_usage();
  void raise_splits(Pool& pool);
  static void raise_taken(Level& level, const Taken& now);
  static void raise_splits(Level& level, SplitChange now);
  static Level level_at(const Now& now);  // at its peaks
  static void add(Stat& stat, std::int64_t change);
  static PoolStats pool_stats(const Level& level, const Now& now, const Pool& added);

  std::array<Pool, 2> pools_;  ///< by PoolKind
  bool is_detailed_ = true;
  Level all_;
  Stat oversize_allocations_;
  Stat oversize_segments_;
  std::int64_t num_alloc_retries_ = 0;
  std::int64_t num_ooms_ = 0;
  std::int64_t num_sync_all_streams_ = 0;
  std::int64_t num_device_alloc_ = 0;
  std::int64_t num_device_free_ = 0;
};

inline Usage StatsRecorder::usage() const {
  Usage sum;
  for (const Pool& pool : pools_) {
    const Bytes allocated = pool.allocated.bytes - pool.freed.bytes;
    sum.requested += pool.allocated.requested - pool.freed.requested;
    sum.allocated += allocated;
    sum.active += allocated + pool.waiting.bytes;
    sum.reserved += pool.reserved;
    sum.inactive_split += pool.splits.bytes;
  }
  return sum;
}

}  // namespace foregather::alloc
