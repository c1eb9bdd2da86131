// Construction and settings of the caching allocator.
#include <algorithm>
#include <cassert>
#include <limits>

#include "core/alloc/caching_allocator.h"

namespace foregather::alloc {
namespace {

constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max();

}  // namespace

CachingAllocator::CachingAllocator(const AllocConfig& config, DeviceMemory& memory,
                                   EventClock& clock)
    : config_(config),
      rounding_(config),
      max_split_(config.max_split_size.value_or(kUnlimited)),
      pools_(2),
      memory_(&memory),
      clock_(&clock) {
  assert(config.native_backend && "only the native allocator is replicated");
  assert(memory.total() < FreeIndex::kSizeLimit);
  pools_[0].kind = PoolKind::small;
  pools_[1].kind = PoolKind::large;
  set_memory_fraction(config.memory_fraction);
}

CachingAllocator::CachingAllocator(const CachingAllocator& other, DeviceMemory& memory,
                                   EventClock& clock)
    : CachingAllocator(other) {
  memory_ = &memory;
  clock_ = &clock;
  sink_ = nullptr;
}

void CachingAllocator::set_memory_fraction(double fraction) {
  assert(fraction >= 0 && fraction <= 1);
  config_.memory_fraction = fraction;
  limit_.reset();
  if (fraction < 1) {
    limit_ = static_cast<Bytes>(fraction * static_cast<double>(memory_->total()));
  }
  counts_searches_ = limit_ && config_.garbage_collection_threshold > 0;
  update_path();
}

void CachingAllocator::set_expandable_segments(bool on) {
  config_.expandable_segments = on;
  update_path();
}

void CachingAllocator::set_stream_handle(StreamId stream, std::uint64_t handle) {
  for (auto row = stream_handles_.size(); row <= stream.row(); ++row) {
    stream_handles_.push_back(row);
  }
  stream_handles_[stream.row()] = handle;
}

// Clears the record of the operation before.
void CachingAllocator::begin_operation() {
  if (!calls_dirty_) return;
  calls_ = {};
  calls_dirty_ = false;
  update_path();
}

void CachingAllocator::keep_usage_only() {
  recorder_.keep_usage_only();
  update_path();
}

void CachingAllocator::update_path() {
  const bool plain = !config_.expandable_segments && arenas_.empty() && !counts_searches_ &&
                     max_split_ == kUnlimited && routes_.empty() && !has_pending() && !calls_dirty_;
  path_ = !plain ? Path::general : recorder_.keeps_usage_only() ? Path::lean : Path::plain;
}

std::uint32_t CachingAllocator::new_list(std::uint32_t pool, std::uint32_t stream) {
  std::vector<std::uint32_t>& lists = pools_[pool].lists;
  if (stream >= lists.size()) lists.resize(stream + 1, kNone);
  lists[stream] = static_cast<std::uint32_t>(lists_.size());
  BlockList& list = lists_.emplace_back();
  list.stream = stream;
  list.pool = pool;
  list.kind = pools_[pool].kind;
  return lists[stream];
}

Bytes CachingAllocator::largest_free_block() const {
  Bytes largest = 0;
  for (const BlockList& list : lists_) {
    FreeIndex::Position at;
    if (list.free.last(at)) largest = std::max(largest, blocks_[list.free.block(at)].size);
  }
  return largest;
}

}  // namespace foregather::alloc
