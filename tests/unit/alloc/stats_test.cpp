#include <random>
#include <vector>
#include <catch2/catch.hpp>

#include "tests/unit/alloc/fixture.h"

namespace foregather::alloc::test {

TEST_CASE("each kind of pool is counted, and all together") {
  Device device;
  const BlockId small = device.malloc(1000);
  const BlockId large = device.malloc(5 * MiB);
  device.free(large);
  const Stats stats = device.allocator.stats();
  CHECK(stats.all.allocation == Stat{1, 2, 2, 1});
  CHECK(stats.all.allocated_bytes == Stat{1024, 5 * MiB + 1024, 5 * MiB + 1024, 5 * MiB});
  CHECK(stats.all.requested_bytes == Stat{1000, 5 * MiB + 1000, 5 * MiB + 1000, 5 * MiB});
  CHECK(stats.all.segment == Stat{2, 2, 2, 0});
  CHECK(stats.all.reserved_bytes == Stat{22 * MiB, 22 * MiB, 22 * MiB, 0});
  CHECK(stats.small_pool.allocation == Stat{1, 1, 1, 0});
  CHECK(stats.small_pool.reserved_bytes == Stat{2 * MiB, 2 * MiB, 2 * MiB, 0});
  CHECK(stats.small_pool.inactive_split == Stat{1, 1, 1, 0});
  CHECK(stats.large_pool.active == Stat{0, 1, 1, 1});
  CHECK(stats.large_pool.inactive_split == Stat{0, 1, 1, 1});
  CHECK(stats.large_pool.inactive_split_bytes == Stat{0, 15 * MiB, 15 * MiB, 15 * MiB});
  CHECK(stats.num_device_alloc == 2);
  device.free(small);
}

TEST_CASE("peaks are kept until they are reset") {
  Device device;
  device.free(device.malloc(40 * MiB));
  CHECK(device.allocator.peak() == Usage{40 * MiB, 40 * MiB, 40 * MiB, 40 * MiB, 0});
  device.allocator.reset_peak_stats();
  CHECK(device.allocator.peak() == Usage{0, 0, 0, 40 * MiB, 0});
  CHECK(device.allocator.stats().all.allocation == Stat{0, 0, 1, 1});
  device.malloc(30 * MiB);
  CHECK(device.allocator.peak() == Usage{30 * MiB, 30 * MiB, 30 * MiB, 40 * MiB, 10 * MiB});
}

TEST_CASE("a peak of all pools is not the sum of their peaks") {
  Device device;
  device.free(device.malloc(1 * MiB));
  device.free(device.malloc(5 * MiB));
  const Stats stats = device.allocator.stats();
  CHECK(stats.all.allocated_bytes.peak == 5 * MiB);
  CHECK(stats.small_pool.allocated_bytes.peak == 1 * MiB);
}

TEST_CASE("allocated falls at the free, active and requested when it completes") {
  Device device;
  const BlockId block = device.malloc(1000);
  device.allocator.record_stream(block, kSide);
  device.clock.work(kSide, 10);
  device.free(block);
  CHECK(device.usage() == Usage{1000, 0, 1024, 2 * MiB, 2 * MiB - 1024});
  device.allocator.empty_cache();
  CHECK(device.usage() == Usage{});
}

TEST_CASE("whoever keeps usage alone has the same usage and peaks") {
  Device all, usage_only;
  usage_only.allocator.keep_usage_only();
  std::mt19937 random(1);
  std::vector<BlockId> blocks;
  const auto without_splits = [](Usage usage) {
    usage.inactive_split = 0;
    return usage;
  };
  for (int i = 0; i < 3000; ++i) {
    if (i % 500 == 0)
      for (Device* device : {&all, &usage_only}) device->allocator.reset_peak_stats();
    if (blocks.empty() || random() % 5 < 3) {
      const Bytes bytes = 1 + static_cast<Bytes>(random() % (random() % 4 == 0 ? 30 * MiB : 9000));
      blocks.push_back(all.malloc(bytes));
      REQUIRE(usage_only.malloc(bytes) == blocks.back());
      if (random() % 8 == 0) {
        for (Device* device : {&all, &usage_only}) {
          device->allocator.record_stream(blocks.back(), kSide);
          device->clock.work(kSide, 3);
        }
      }
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      for (Device* device : {&all, &usage_only}) device->free(blocks.back());
      blocks.pop_back();
    }
    REQUIRE(without_splits(all.usage()) == without_splits(usage_only.usage()));
    REQUIRE(without_splits(all.allocator.peak()) == without_splits(usage_only.allocator.peak()));
  }
  CHECK(all.allocator.stats().num_device_alloc > 10);
}

}  // namespace foregather::alloc::test
