#include "core/alloc/stats_recorder.h"

namespace foregather::alloc {

void StatsRecorder::reserved(PoolKind kind, std::int64_t segments, Bytes bytes) {
  Counters& pool = pools_[static_cast<std::size_t>(kind)];
  pool.sum.segments += std::max<std::int64_t>(segments, 0);
  pool.sum.reserved += std::max<Bytes>(bytes, 0);
  for (Level* level : {&pool.level, &all_}) {
    level->segments.now += segments;
    level->now.reserved += bytes;
    raise_peaks(*level);
  }
  ++(bytes > 0 ? num_device_alloc_ : num_device_free_);
}

void StatsRecorder::raise_peaks(Level& level) {
  for (Bytes Usage::*bytes : {&Usage::requested, &Usage::allocated, &Usage::active,
                              &Usage::reserved, &Usage::inactive_split}) {
    level.peak.*bytes = std::max(level.peak.*bytes, level.now.*bytes);
  }
  for (Count* count : {&level.allocations, &level.actives, &level.splits, &level.segments}) {
    count->peak = std::max(count->peak, count->now);
  }
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
  const auto count = [&](const Count& value, std::int64_t raised) {
    return stat(value.now, value.peak, raised);
  };
  const auto bytes = [&](Bytes Usage::*value, Bytes raised) {
    return stat(level.now.*value, level.peak.*value, raised);
  };
  PoolStats out;
  out.allocation = count(level.allocations, sum.blocks);
  out.allocated_bytes = bytes(&Usage::allocated, sum.bytes);
  out.active = count(level.actives, sum.blocks);
  out.active_bytes = bytes(&Usage::active, sum.bytes);
  out.requested_bytes = bytes(&Usage::requested, sum.requested);
  out.segment = count(level.segments, sum.segments);
  out.reserved_bytes = bytes(&Usage::reserved, sum.reserved);
  out.inactive_split = count(level.splits, sum.splits);
  out.inactive_split_bytes = bytes(&Usage::inactive_split, sum.split_bytes);
  return out;
}

Stats StatsRecorder::stats() const {
  const Sums& small = pools_[0].sum;
  const Sums& large = pools_[1].sum;
  const Sums both{small.blocks + large.blocks,           small.bytes + large.bytes,
                  small.requested + large.requested,     small.splits + large.splits,
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
  for (Count* count : {&level.allocations, &level.actives, &level.splits, &level.segments}) {
    count->peak = count->now;
  }
}

void StatsRecorder::reset_peak() {
  reset(all_);
  for (Counters& pool : pools_) reset(pool.level);
  oversize_allocations_.peak = oversize_allocations_.current;
  oversize_segments_.peak = oversize_segments_.current;
}

}  // namespace foregather::alloc
