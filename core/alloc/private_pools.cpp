// Private pools and the routes that lead mallocs to them.
#include <algorithm>
#include <cassert>

#include "core/alloc/caching_allocator.h"

namespace foregather::alloc {

PoolId CachingAllocator::create_pool(PoolOptions options) {
  const PoolId id(private_pools_.size());
  private_pools_.push_back({options, 1});
  pools_.push_back({PoolKind::small, id, 0, {}});
  pools_.push_back({PoolKind::large, id, 0, {}});
  return id;
}

void CachingAllocator::begin_allocate_to_pool(PoolId pool, StreamId stream) {
  assert(pool && pool.row() < private_pools_.size());
  routes_.push_back({pool, stream});
  update_path();
}

void CachingAllocator::end_allocate_to_pool(PoolId pool) {
  const auto route = std::find_if(routes_.begin(), routes_.end(),
                                  [&](const Route& open) { return open.pool == pool; });
  assert(route != routes_.end());
  routes_.erase(route);
  update_path();
}

std::uint32_t CachingAllocator::routed_pool(std::uint32_t pool, StreamId stream) const {
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) {
    if (!route->stream || route->stream == stream) return pool + 2 + 2 * route->pool.row();
  }
  return pool;
}

void CachingAllocator::retain_pool(PoolId pool) {
  assert(private_pools_[pool.row()].users > 0);
  ++private_pools_[pool.row()].users;
}

void CachingAllocator::release_pool(PoolId pool) {
  assert(private_pools_[pool.row()].users > 0);
  --private_pools_[pool.row()].users;
}

}  // namespace foregather::alloc
