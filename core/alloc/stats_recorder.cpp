#include "core/alloc/stats_recorder.h"

namespace foregather::alloc {
namespace {

void raise(std::int64_t& peak, std::int64_t now) { peak = std::max(peak, now); }

}  // namespace

void StatsRecorder::reserved(PoolKind kind, std::int64_t segments, Bytes bytes) {
  Pool& pool = pools_[static_cast<std::size_t>(kind)];
  pool.segments += segments;
  pool.reserved += bytes;
  pool.added_segments += std::max<std::int64_t>(segments, 0);
  pool.added_reserved += std::max<Bytes>(bytes, 0);
  raise(pool.level.peak.reserved, pool.reserved);
  raise(pool.level.peak_counts.segments, pool.segments);
  raise(all_.peak.reserved, pools_[0].reserved + pools_[1].reserved);
  raise(all_.peak_counts.segments, pools_[0].segments + pools_[1].segments);
  ++(bytes > 0 ? num_device_alloc_ : num_device_free_);
}

StatsRecorder::Taken StatsRecorder::taken(const Pool& pool) {
  const std::int64_t blocks = pool.allocated.blocks - pool.freed.blocks;
  const Bytes bytes = pool.allocated.bytes - pool.freed.bytes;
  return {pool.allocated.requested - pool.freed.requested, bytes, bytes + pool.waiting.bytes,
          blocks, blocks + pool.waiting.blocks};
}

StatsRecorder::Now StatsRecorder::now(const Pool& pool) {
  const Taken taken = StatsRecorder::taken(pool);
  return {{taken.requested, taken.allocated, taken.active, pool.reserved, pool.splits.bytes},
          {taken.allocations, taken.actives, pool.splits.blocks, pool.segments}};
}

StatsRecorder::Now StatsRecorder::now() const {
  Now sum{usage(), {}};
  for (const Pool& pool : pools_) {
    const Counts counts = now(pool).counts;
    sum.counts.allocations += counts.allocations;
    sum.counts.actives += counts.actives;
    sum.counts.splits += counts.splits;
    sum.counts.segments += counts.segments;
  }
  return sum;
}

void StatsRecorder::raise_taken(Pool& pool) {
  const Taken a = taken(pools_[0]), b = taken(pools_[1]);
  if (is_detailed_) raise_taken(pool.level, &pool == pools_.data() ? a : b);
  raise_taken(all_, {a.requested + b.requested, a.allocated + b.allocated, a.active + b.active,
                     a.allocations + b.allocations, a.actives + b.actives});
}

void StatsRecorder::raise_usage() {
  const Usage now = usage();
  Usage& peak = all_.peak;
  raise(peak.requested, now.requested);
  raise(peak.allocated, now.allocated);
  raise(peak.active, now.active);
  all_.room.bytes = std::min(
      {peak.requested - now.requested, peak.allocated - now.allocated, peak.active - now.active});
}

void StatsRecorder::raise_taken(Level& level, const Taken& now) {
  Usage& peak = level.peak;
  Counts& counts = level.peak_counts;
  raise(peak.requested, now.requested);
  raise(peak.allocated, now.allocated);
  raise(peak.active, now.active);
  raise(counts.allocations, now.allocations);
  raise(counts.actives, now.actives);
  level.room = {std::min({peak.requested - now.requested, peak.allocated - now.allocated,
                          peak.active - now.active}),
                std::min(counts.allocations - now.allocations, counts.actives - now.actives)};
}

void StatsRecorder::raise_splits(Pool& pool) {
  raise_splits(pool.level, pool.splits);
  raise_splits(all_, {pools_[0].splits.blocks + pools_[1].splits.blocks,
                      pools_[0].splits.bytes + pools_[1].splits.bytes});
}

void StatsRecorder::raise_splits(Level& level, SplitChange now) {
  raise(level.peak.inactive_split, now.bytes);
  raise(level.peak_counts.splits, now.blocks);
  level.split_room = {level.peak.inactive_split - now.bytes, level.peak_counts.splits - now.blocks};
}

StatsRecorder::Level StatsRecorder::level_at(const Now& now) {
  return {now.bytes, now.counts, {}, {}};
}

void StatsRecorder::add(Stat& stat, std::int64_t change) {
  stat.current += change;
  stat.peak = std::max(stat.peak, stat.current);
  (change > 0 ? stat.allocated : stat.freed) += change > 0 ? change : -change;
}

PoolStats StatsRecorder::pool_stats(const Level& level, const Now& now, const Pool& added) {
  const auto stat = [](std::int64_t current, std::int64_t peak, std::int64_t raised) {
    return Stat{current, peak, raised, raised - current};
  };
  const auto count = [&](std::int64_t Counts::*value, std::int64_t raised) {
    return stat(now.counts.*value, level.peak_counts.*value, raised);
  };
  const auto bytes = [&](Bytes Usage::*value, Bytes raised) {
    return stat(now.bytes.*value, level.peak.*value, raised);
  };
  PoolStats out;
  out.allocation = count(&Counts::allocations, added.allocated.blocks);
  out.allocated_bytes = bytes(&Usage::allocated, added.allocated.bytes);
  out.active = count(&Counts::actives, added.allocated.blocks);
  out.active_bytes = bytes(&Usage::active, added.allocated.bytes);
  out.requested_bytes = bytes(&Usage::requested, added.allocated.requested);
  out.segment = count(&Counts::segments, added.added_segments);
  out.reserved_bytes = bytes(&Usage::reserved, added.added_reserved);
  out.inactive_split = count(&Counts::splits, added.added_splits.blocks);
  out.inactive_split_bytes = bytes(&Usage::inactive_split, added.added_splits.bytes);
  return out;
}

Stats StatsRecorder::stats() const {
  Pool both;
  for (const Pool& pool : pools_) {
    both.allocated.blocks += pool.allocated.blocks;
    both.allocated.bytes += pool.allocated.bytes;
    both.allocated.requested += pool.allocated.requested;
    both.added_splits.blocks += pool.added_splits.blocks;
    both.added_splits.bytes += pool.added_splits.bytes;
    both.added_segments += pool.added_segments;
    both.added_reserved += pool.added_reserved;
  }
  Stats out;
  out.all = pool_stats(all_, now(), both);
  out.small_pool = pool_stats(pools_[0].level, now(pools_[0]), pools_[0]);
  out.large_pool = pool_stats(pools_[1].level, now(pools_[1]), pools_[1]);
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
  for (Pool& pool : pools_) pool.level = level_at(now(pool));
  all_ = level_at(now());
  oversize_allocations_.peak = oversize_allocations_.current;
  oversize_segments_.peak = oversize_segments_.current;
}

}  // namespace foregather::alloc
