// Frees that wait for other streams.
#include <catch2/catch.hpp>

#include "tests/unit/alloc/fixture.h"

namespace foregather::alloc::test {
namespace {

/// A block of 50 MiB on the main stream, used by the side stream until 10 ms, freed at 1 ms.
void free_early(Device& device) {
  const BlockId block = device.malloc(50 * MiB, kMain);
  device.allocator.record_stream(block, kSide);
  device.clock.work(kSide, 10 * kMillisecond);
  device.clock.now = 1 * kMillisecond;
  device.free(block);
}

}  // namespace

TEST_CASE("a block in use elsewhere stays active after its free") {
  Device device;
  free_early(device);
  CHECK(device.allocator.last_calls().event_records == 1);
  CHECK(device.usage() == Usage{50 * MiB, 0, 50 * MiB, 50 * MiB, 0});
  CHECK(device.allocator.has_pending());
  CHECK(device.allocator.layout()[0].blocks[0].state == BlockState::waiting);
  CHECK(device.allocator.layout()[0].blocks[0].uses == std::vector<StreamId>{kSide});
}

TEST_CASE("a malloc before the event takes a new segment") {
  Device device;
  free_early(device);
  device.clock.now = 5 * kMillisecond;
  device.malloc(50 * MiB, kMain);
  CHECK(device.usage().reserved == 100 * MiB);
  CHECK(device.allocator.last_calls().event_queries == 1);
  CHECK(device.allocator.has_pending());
}

TEST_CASE("a malloc after the event takes the block back") {
  Device device;
  free_early(device);
  device.clock.now = 11 * kMillisecond;
  device.malloc(50 * MiB, kMain);
  CHECK(device.usage().reserved == 50 * MiB);
  CHECK_FALSE(device.allocator.has_pending());
  CHECK(device.log.completed.size() == 1);
}

TEST_CASE("only a malloc looks at events") {
  Device device;
  free_early(device);
  device.clock.now = 11 * kMillisecond;
  const BlockId other = device.malloc(1, kThird);  // polls, and completes the free
  CHECK(device.usage().active == 512);
  device.free(other);
  const BlockId again = device.malloc(50 * MiB, kMain);
  device.allocator.record_stream(again, kSide);
  device.free(again);
  const int queries = device.clock.queries;
  device.free(device.malloc(1, kThird));
  CHECK(device.clock.queries == queries + 1);
}

TEST_CASE("the block's own stream needs no event, a foreign one only once") {
  Device device;
  const BlockId block = device.malloc(50 * MiB, kMain);
  device.allocator.record_stream(block, kMain);
  device.free(block);
  CHECK_FALSE(device.allocator.has_pending());
  const BlockId again = device.malloc(50 * MiB, kMain);
  for (int i = 0; i < 3; ++i) device.allocator.record_stream(again, kSide);
  device.free(again);
  CHECK(device.allocator.last_calls().event_records == 1);
}

TEST_CASE("a block waits for every stream") {
  Device device;
  const BlockId block = device.malloc(50 * MiB, kMain);
  device.allocator.record_stream(block, kSide);
  device.allocator.record_stream(block, kThird);
  device.clock.work(kSide, 10);
  device.clock.work(kThird, 20);
  device.free(block);
  device.clock.now = 15;
  device.malloc(1);
  CHECK(device.usage().active == 50 * MiB + 512);
  device.clock.now = 20;
  device.malloc(1);
  CHECK(device.usage().active == 1024);
}

TEST_CASE("the queue of a stream stops at its first unfinished event, others go on") {
  Device device;
  const auto used_on = [&](StreamId stream, Ns length) {
    const BlockId block = device.malloc(50 * MiB, kMain);
    device.allocator.record_stream(block, stream);
    device.clock.work(stream, length);
    device.free(block);
  };
  used_on(kSide, 10);   // until 10
  used_on(kSide, 10);   // until 20
  used_on(kThird, 12);  // until 12
  CHECK(device.usage().active == 150 * MiB);
  device.clock.now = 12;
  const int queries = device.clock.queries;
  device.malloc(1);
  CHECK(device.usage().active == 50 * MiB + 512);
  CHECK(device.clock.queries == queries + 3);
}

TEST_CASE("a waiting block does not merge with its neighbours") {
  Device device;
  const BlockId a = device.malloc(2 * MiB);
  const BlockId b = device.malloc(2 * MiB);
  device.allocator.record_stream(a, kSide);
  device.clock.work(kSide, 10);
  device.free(a);
  device.free(b);
  CHECK(device.allocator.largest_free_block() == 18 * MiB);
  device.clock.now = 10;
  device.malloc(1);
  CHECK(device.allocator.largest_free_block() == 20 * MiB);
}

TEST_CASE("empty_cache waits for all events") {
  Device device;
  free_early(device);
  const DriverCalls calls = device.allocator.empty_cache();
  CHECK(calls.synchronized);
  CHECK(calls.event_syncs == 1);
  CHECK(device.clock.now == 10 * kMillisecond);
  CHECK(device.usage() == Usage{});
  CHECK(device.allocator.stats().num_sync_all_streams == 1);
}

}  // namespace foregather::alloc::test
