#include "core/alloc/stats_recorder.h"

namespace foregather::alloc {

void StatsRecorder::reserved(PoolKind kind, std::int64_t segments, Bytes bytes) {
  sums_[static_cast<std::size_t>(kind)][kReserved] += std::max<Bytes>(bytes, 0);
  apply(kind, {0, 0, 0, bytes, 0, 0, 0, 0});
  add(pools_[static_cast<std::size_t>(kind)].segments, segments);
  add(all_.segments, segments);
  ++(bytes > 0 ? num_device_alloc_ : num_device_free_);
}

void StatsRecorder::raise_peaks(Level& level) {
  for (std::size_t i = 0; i < level.now.size(); ++i) {
    level.peak[i] = std::max(level.peak[i], level.now[i]);
  }
}

void StatsRecorder::add(Stat& stat, std::int64_t change) {
  stat.current += change;
  stat.peak = std::max(stat.peak, stat.current);
  (change > 0 ? stat.allocated : stat.freed) += change > 0 ? change : -change;
}

PoolStats StatsRecorder::pool_stats(const Level& level, const Row& sums) {
  const auto stat = [&](Metric metric, Metric sum) {
    const std::int64_t now = level.now[metric];
    return Stat{now, level.peak[metric], sums[sum], sums[sum] - now};
  };
  PoolStats out;
  out.allocation = stat(kBlocks, kBlocks);
  out.allocated_bytes = stat(kAllocated, kAllocated);
  out.active = stat(kActives, kBlocks);
  out.active_bytes = stat(kActive, kAllocated);
  out.requested_bytes = stat(kRequested, kRequested);
  out.segment = level.segments;
  out.reserved_bytes = stat(kReserved, kReserved);
  out.inactive_split = stat(kSplits, kSplits);
  out.inactive_split_bytes = stat(kSplitBytes, kSplitBytes);
  return out;
}

Stats StatsRecorder::stats() const {
  Row both;
  for (std::size_t i = 0; i < both.size(); ++i) both[i] = sums_[0][i] + sums_[1][i];
  Stats out;
  out.all = pool_stats(all_, both);
  out.small_pool = pool_stats(pools_[0], sums_[0]);
  out.large_pool = pool_stats(pools_[1], sums_[1]);
  out.oversize_allocations = oversize_allocations_;
  out.oversize_segments = oversize_segments_;
  out.num_alloc_retries = num_alloc_retries_;
  out.num_ooms = num_ooms_;
  out.num_sync_all_streams = num_sync_all_streams_;
  out.num_device_alloc = num_device_alloc_;
  out.num_device_free = num_device_free_;
  return out;
}

void StatsRecorder::reset_peak() {
  for (Level* level : {&pools_[0], &pools_[1], &all_}) {
    level->peak = level->now;
    level->segments.peak = level->segments.current;
  }
  oversize_allocations_.peak = oversize_allocations_.current;
  oversize_segments_.peak = oversize_segments_.current;
}

}  // namespace foregather::alloc
