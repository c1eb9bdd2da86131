// max_split_size: oversize blocks are kept whole, reused only for similar sizes, released early.
#include <catch2/catch.hpp>

#include "tests/unit/alloc/fixture.h"

namespace foregather::alloc::test {

TEST_CASE("an oversize block is not broken up for a small request") {
  Device device("max_split_size_mb:40");
  device.free(device.malloc(40 * MiB));
  device.malloc(38 * MiB);
  CHECK(device.usage().reserved == 78 * MiB);
}

TEST_CASE("an oversize request takes a cached block that wastes less than 20 MiB") {
  Device device("max_split_size_mb:40");
  device.free(device.malloc(100 * MiB));
  const BlockId block = device.malloc(80 * MiB + 512);
  CHECK(device.allocator.block_size(block) == 100 * MiB);  // not split
  CHECK(device.usage().reserved == 100 * MiB);
  device.free(block);
  device.malloc(80 * MiB);  // would waste 20 MiB
  CHECK(device.usage().reserved == 180 * MiB);
}

TEST_CASE("the tolerated waste is an option") {
  Device device("max_split_size_mb:40,max_non_split_rounding_mb:30");
  device.free(device.malloc(100 * MiB));
  device.malloc(80 * MiB);
  CHECK(device.usage().reserved == 100 * MiB);
}

TEST_CASE("a block below the limit is split as usual") {
  Device device("max_split_size_mb:40");
  device.free(device.malloc(38 * MiB));
  device.malloc(30 * MiB);
  CHECK(device.usage() == Usage{30 * MiB, 30 * MiB, 30 * MiB, 38 * MiB, 8 * MiB});
}

TEST_CASE("a full device releases one sufficient oversize block before everything else") {
  Device device("max_split_size_mb:40", 200 * MiB);
  const BlockId a = device.malloc(50 * MiB);
  const BlockId b = device.malloc(90 * MiB);
  const BlockId c = device.malloc(30 * MiB);
  const Address released = device.allocator.address(b);
  for (const BlockId block : {a, b, c}) device.free(block);
  device.log.segments.clear();
  device.malloc(62 * MiB);  // too small for b's block: it would waste 28 MiB
  REQUIRE(device.log.segments.size() == 2);
  CHECK(device.log.segments[0].action == SegmentAction::free);
  CHECK(device.log.segments[0].address == released);
  CHECK(device.allocator.stats().num_alloc_retries == 0);
  CHECK(device.usage().reserved == 142 * MiB);
}

TEST_CASE("or several, from the largest down, until they would do") {
  Device device("max_split_size_mb:40", 210 * MiB);
  const BlockId a = device.malloc(50 * MiB);
  const BlockId b = device.malloc(60 * MiB);
  const BlockId c = device.malloc(70 * MiB);
  const BlockId d = device.malloc(30 * MiB);
  for (const BlockId block : {a, b, c, d}) device.free(block);
  device.malloc(120 * MiB);  // 70 + 60
  CHECK(device.allocator.last_calls().frees == 2);
  CHECK_FALSE(device.allocator.last_calls().retried);
  CHECK(device.usage().reserved == 200 * MiB);
}

TEST_CASE("what did not suffice stays released") {
  Device device("max_split_size_mb:40", 100 * MiB);
  const BlockId a = device.malloc(50 * MiB);
  const BlockId kept = device.malloc(40 * MiB, kSide);
  device.free(a);
  CHECK(device.try_malloc(70 * MiB) == AllocStatus::out_of_memory);
  CHECK(device.usage().reserved == 40 * MiB);
  device.free(kept);
}

TEST_CASE("other streams' oversize blocks are not released early") {
  Device device("max_split_size_mb:40", 100 * MiB);
  device.free(device.malloc(60 * MiB, kSide));
  device.malloc(70 * MiB, kMain);
  CHECK(device.allocator.last_calls().retried);
}

TEST_CASE("oversize blocks and segments are counted") {
  Device device("max_split_size_mb:40");
  const BlockId block = device.malloc(40 * MiB);
  device.malloc(38 * MiB);
  CHECK(device.allocator.stats().oversize_allocations == Stat{1, 1, 1, 0});
  CHECK(device.allocator.stats().oversize_segments == Stat{1, 1, 1, 0});
  device.free(block);
  device.allocator.empty_cache();
  CHECK(device.allocator.stats().oversize_allocations == Stat{0, 1, 1, 1});
  CHECK(device.allocator.stats().oversize_segments == Stat{0, 1, 1, 1});
}

}  // namespace foregather::alloc::test
