// Private pools and routes to them.
#include <catch2/catch.hpp>

#include "tests/unit/alloc/fixture.h"

namespace foregather::alloc::test {

TEST_CASE("a route leads mallocs to a pool that shares nothing with the default one") {
  Device device;
  device.free(device.malloc(40 * MiB));
  const PoolId pool = device.allocator.create_pool();
  device.allocator.begin_allocate_to_pool(pool);
  const BlockId inside = device.malloc(40 * MiB);
  device.allocator.end_allocate_to_pool(pool);
  CHECK(device.usage().reserved == 80 * MiB);
  device.free(inside);
  device.malloc(40 * MiB);
  CHECK(device.allocator.largest_free_block() == 40 * MiB);  // the pool keeps its own
  CHECK(device.allocator.layout().back().pool == pool);
}

TEST_CASE("a route may be for one stream, and the newest match wins") {
  Device device;
  const PoolId outer = device.allocator.create_pool();
  const PoolId inner = device.allocator.create_pool();
  device.allocator.begin_allocate_to_pool(outer);
  device.allocator.begin_allocate_to_pool(inner, kSide);
  device.malloc(40 * MiB, kMain);
  device.malloc(50 * MiB, kSide);
  device.allocator.end_allocate_to_pool(inner);
  device.malloc(60 * MiB, kSide);
  device.allocator.end_allocate_to_pool(outer);
  device.malloc(70 * MiB, kSide);
  std::vector<PoolId> pools;
  for (const SegmentLayout& segment : device.allocator.layout()) pools.push_back(segment.pool);
  CHECK(pools == std::vector<PoolId>{outer, inner, outer, PoolId{}});
}

TEST_CASE("a pool in use keeps its cache, a released one gives it back") {
  Device device;
  const PoolId pool = device.allocator.create_pool();
  device.allocator.begin_allocate_to_pool(pool);
  const BlockId small = device.malloc(1);
  const BlockId large = device.malloc(40 * MiB);
  device.allocator.end_allocate_to_pool(pool);
  device.free(small);
  device.free(large);
  device.allocator.empty_cache();
  CHECK(device.usage().reserved == 42 * MiB);
  device.allocator.retain_pool(pool);
  device.allocator.release_pool(pool);
  device.allocator.empty_cache();
  CHECK(device.usage().reserved == 42 * MiB);
  device.allocator.release_pool(pool);
  device.log.segments.clear();
  device.allocator.empty_cache();
  CHECK(device.usage().reserved == 0);
  REQUIRE(device.log.segments.size() == 2);
  CHECK(device.log.segments[0].kind == PoolKind::small);  // unlike the default pool
}

TEST_CASE("frees inside a capture wait for its end, without events for uses inside it") {
  Device device;
  const BlockId before = device.malloc(40 * MiB);
  const BlockId both = device.malloc(50 * MiB);
  device.allocator.record_stream(both, kThird);
  const PoolId pool = device.allocator.create_pool();
  device.allocator.begin_allocate_to_pool(pool);
  device.allocator.record_stream(before, kSide);
  device.allocator.record_stream(both, kSide);
  device.clock.work(kSide, 1000);
  device.clock.work(kThird, 100);
  device.free(before);
  device.free(both);
  CHECK(device.allocator.last_calls().event_records == 0);
  device.malloc(1);
  CHECK(device.usage().active == 90 * MiB + 512);
  CHECK(device.allocator.has_pending());
  device.allocator.end_allocate_to_pool(pool);
  device.malloc(1);  // frees the first; records an event on the third stream for the second
  CHECK(device.usage().active == 50 * MiB + 1024);
  device.clock.now = 100;
  device.malloc(1);
  CHECK(device.usage().active == 1536);
}

TEST_CASE("inside a route nothing cached is released for a malloc") {
  Device device("", 100 * MiB);
  device.free(device.malloc(60 * MiB));
  const PoolId pool = device.allocator.create_pool();
  device.allocator.begin_allocate_to_pool(pool);
  CHECK(device.try_malloc(60 * MiB) == AllocStatus::out_of_memory);
  CHECK(device.allocator.stats().num_alloc_retries == 0);
  device.allocator.empty_cache();
  CHECK(device.usage().reserved == 60 * MiB);
  device.allocator.end_allocate_to_pool(pool);
  CHECK(device.try_malloc(60 * MiB) == AllocStatus::ok);
}

TEST_CASE("a pool may forbid splitting") {
  Device device;
  const PoolId pool = device.allocator.create_pool({.no_split = true});
  device.allocator.begin_allocate_to_pool(pool);
  const BlockId block = device.malloc(1);
  CHECK(device.allocator.block_size(block) == 2 * MiB);
  device.allocator.end_allocate_to_pool(pool);
}

TEST_CASE("a pool may offer its cache before memory is released") {
  Device device("", 100 * MiB);
  const PoolId pool = device.allocator.create_pool({.use_on_oom = true});
  device.allocator.begin_allocate_to_pool(pool);
  const BlockId inside = device.malloc(60 * MiB);
  device.allocator.end_allocate_to_pool(pool);
  device.free(inside);
  device.free(device.malloc(30 * MiB));
  const BlockId got = device.malloc(50 * MiB);
  CHECK(device.usage().reserved == 90 * MiB);
  CHECK(device.allocator.block_size(got) == 50 * MiB);
  CHECK_FALSE(device.allocator.last_calls().retried);
  device.free(got);
}

}  // namespace foregather::alloc::test
