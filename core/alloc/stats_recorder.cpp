#include "core/alloc/stats_recorder.h"

namespace foregather::alloc {

void StatsRecorder::reserved(PoolKind kind, std::int64_t segments, Bytes bytes) {
  Counters& pool = pools_[static_cast<std::size_t>(kind)];
  pool.sum.segments += std::max<std::int64_t>(segments, 0);
  pool.sum.reserved += std::max<Bytes>(bytes, 0);
  for (Level* level : {&pool.level, &all_}) {
    level->segments += segments;
    level->segments_peak = std::max(level->segments_peak, level->segments);
    level->now.reserved += bytes;
    level->peak.reserved = std::max(level->peak.reserved, level->now.reserved);
  }
  ++(bytes > 0 ? num_device_alloc_ : num_device_free_);
}

void StatsRecorder::add(Stat& stat, std::int64_t change) {
  stat.current += change;
  stat.peak = std::max(stat.peak, stat.current);
  (change > 0 ? stat.allocated : stat.freed) += change > 0 ? change : -change;
}

PoolStats StatsRecorder::pool_stats(const Level& level, const Sums& sum) {
  const auto stat = [](std::int64_t now, std::int64_t peak, std::int64_t raised) {
    return Stat{now, peak, raised, raised - now};
  };
  PoolStats out;
  out.allocation = stat(level.allocations, level.allocations_peak, sum.blocks);
  out.allocated_bytes = stat(level.now.allocated, level.peak.allocated, sum.bytes);
  out.active = stat(level.actives, level.actives_peak, sum.blocks);
  out.active_bytes = stat(level.now.active, level.peak.active, sum.bytes);
  out.requested_bytes = stat(level.now.requested, level.peak.requested, sum.requested);
  out.segment = stat(level.segments, level.segments_peak, sum.segments);
  out.reserved_bytes = stat(level.now.reserved, level.peak.reserved, sum.reserved);
  out.inactive_split = stat(level.splits, level.splits_peak, sum.splits);
  out.inactive_split_bytes =
      stat(level.now.inactive_split, level.peak.inactive_split, sum.split_bytes);
  return out;
}

Stats StatsRecorder::stats() const {
  const Sums& small = pools_[0].sum;
  const Sums& large = pools_[1].sum;
  const Sums both{small.blocks + large.blocks,       small.bytes + large.bytes,
                  small.requested + large.requested, small.splits + large.splits,
                  small.split_bytes + large.split_bytes, small.segments + large.segments,
                  small.reserved + large.reserved};
  Stats out;
  out.all = pool_stats(all_, both);
  out.small_pool = pool_stats(pools_[0].level, small);
  out.large_pool = pool_stats(pools_[1].level, large);
  out.oversize_allocations = oversize_allocations_;
  out.oversize_segments = oversize_segments_;
  out.num_alloc_retries = num_alloc_retries_;
  out.num_ooms = num_ooms_;
  out.num_sync_all_streams = num_sync_all_streams_;
  out.num_device_alloc = num_device_alloc_;
  out.num_device_free = num_device_free_;
  return out;
}

void StatsRecorder::reset(Level& level) {
  level.peak = level.now;
  level.allocations_peak = level.allocations;
  level.actives_peak = level.actives;
  level.splits_peak = level.splits;
  level.segments_peak = level.segments;
}

void StatsRecorder::reset_peak() {
  reset(all_);
  for (Counters& pool : pools_) reset(pool.level);
  oversize_allocations_.peak = oversize_allocations_.current;
  oversize_segments_.peak = oversize_segments_.current;
}

}  // namespace foregather::alloc
