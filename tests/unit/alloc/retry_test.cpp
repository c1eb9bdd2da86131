// What happens, in order, when the device is full.
#include <catch2/catch.hpp>

#include "tests/unit/alloc/fixture.h"

namespace foregather::alloc::test {

TEST_CASE("a full device makes the allocator release its cache and try again") {
  Device device("", 100 * MiB);
  device.free(device.malloc(60 * MiB));
  device.free(device.malloc(30 * MiB, kSide));
  CHECK(device.usage().reserved == 90 * MiB);
  const Allocation got = device.allocator.malloc(80 * MiB, kMain);
  REQUIRE(got.ok());
  const DriverCalls& calls = device.allocator.last_calls();
  CHECK(calls.mallocs == 2);
  CHECK(calls.failed_mallocs == 1);
  CHECK(calls.frees == 2);
  CHECK(calls.retried);
  CHECK(calls.synchronized);
  CHECK(device.usage().reserved == 80 * MiB);
  const Stats stats = device.allocator.stats();
  CHECK(stats.num_alloc_retries == 1);
  CHECK(stats.num_ooms == 0);
  CHECK(stats.num_device_alloc == 3);
  CHECK(stats.num_device_free == 2);
  CHECK(stats.all.reserved_bytes.peak == 90 * MiB);
}

TEST_CASE("out of memory is a result and leaves the allocator usable") {
  Device device("", 100 * MiB);
  const BlockId kept = device.malloc(60 * MiB);
  CHECK(device.try_malloc(60 * MiB) == AllocStatus::out_of_memory);
  CHECK(device.allocator.last_calls().mallocs == 2);
  CHECK(device.log.ooms == std::vector<std::pair<Bytes, Bytes>>{{60 * MiB, 40 * MiB}});
  CHECK(device.try_malloc(60 * MiB) == AllocStatus::out_of_memory);
  const Stats stats = device.allocator.stats();
  CHECK(stats.num_ooms == 2);
  CHECK(stats.num_alloc_retries == 2);  // also when there was nothing to release
  device.free(kept);
  CHECK(device.try_malloc(60 * MiB) == AllocStatus::ok);
}

TEST_CASE("a split segment cannot be released") {
  Device device("", 40 * MiB);
  device.malloc(2 * MiB);  // 18 MiB of its segment stay free
  CHECK(device.try_malloc(30 * MiB) == AllocStatus::out_of_memory);
  CHECK(device.usage().reserved == 20 * MiB);
  CHECK(device.log.count(SegmentAction::free) == 0);
}

TEST_CASE("a retry waits for blocks that other streams still use") {
  Device device("", 100 * MiB);
  const BlockId block = device.malloc(80 * MiB);
  device.allocator.record_stream(block, kSide);
  device.clock.work(kSide, 500);
  device.free(block);
  CHECK(device.try_malloc(90 * MiB) == AllocStatus::ok);
  CHECK(device.clock.now == 500);
  CHECK(device.allocator.last_calls().event_syncs == 1);
}

TEST_CASE("cached memory is released large pool first, then in order of stream, size and address") {
  Device device;
  device.allocator.set_stream_handle(kMain, 9000);
  device.allocator.set_stream_handle(kSide, 70);
  const BlockId small = device.malloc(1, kSide);
  const BlockId big = device.malloc(60 * MiB, kMain);
  const BlockId low = device.malloc(40 * MiB, kMain);
  const BlockId high = device.malloc(40 * MiB, kMain);
  const BlockId side = device.malloc(80 * MiB, kSide);
  const std::vector<Address> expected{device.allocator.address(side), device.allocator.address(low),
                                      device.allocator.address(high), device.allocator.address(big),
                                      device.allocator.address(small)};
  for (const BlockId block : {small, big, high, low, side}) device.free(block);
  device.log.segments.clear();
  device.allocator.empty_cache();
  std::vector<Address> released;
  for (const SegmentEvent& event : device.log.segments) released.push_back(event.address);
  CHECK(released == expected);
}

TEST_CASE("a memory fraction is a smaller device") {
  Device device("per_process_memory_fraction:0.5", 100 * MiB);
  device.malloc(40 * MiB);
  CHECK(device.try_malloc(11 * MiB) == AllocStatus::out_of_memory);  // its segment is 12 MiB
  CHECK(device.allocator.last_calls().mallocs == 0);                 // the driver is not asked
  CHECK(device.try_malloc(10 * MiB) == AllocStatus::ok);
  device.allocator.set_memory_fraction(1);
  CHECK(device.try_malloc(40 * MiB) == AllocStatus::ok);
}

}  // namespace foregather::alloc::test
