// Known answers: default configuration, one stream, an empty cache.
#include <catch2/catch.hpp>

#include "tests/unit/alloc/fixture.h"

namespace foregather::alloc::test {

TEST_CASE("what a first request takes and leaves") {
  struct Row {
    Bytes requested, segment, block, remainder;
  };
  const auto row = GENERATE(values<Row>({
      {1, 2'097'152, 512, 2'096'640},
      {512, 2'097'152, 512, 2'096'640},
      {513, 2'097'152, 1'024, 2'096'128},
      {1'048'576, 2'097'152, 1'048'576, 1'048'576},
      {1'048'577, 20'971'520, 1'049'088, 19'922'432},
      {10'485'248, 20'971'520, 10'485'248, 10'486'272},
      {10'485'249, 10'485'760, 10'485'760, 0},
      {11'534'336, 12'582'912, 12'582'912, 0},  // exactly 1 MiB left: not split
      {11'533'824, 12'582'912, 11'533'824, 1'049'088},
      {20'971'520, 20'971'520, 20'971'520, 0},
      {19'922'944, 20'971'520, 20'971'520, 0},
      {19'922'432, 20'971'520, 19'922'432, 1'049'088},
  }));
  CAPTURE(row.requested);
  Device device;
  const BlockId block = device.malloc(row.requested);
  CHECK(device.allocator.block_size(block) == row.block);
  CHECK(device.allocator.requested_size(block) == row.requested);
  CHECK(device.usage() == Usage{row.requested, row.block, row.block, row.segment, row.remainder});
  CHECK(device.allocator.largest_free_block() == row.remainder);
  CHECK(device.log.segments ==
        std::vector<SegmentEvent>{{SegmentAction::alloc,
                                   row.block > MiB ? PoolKind::large : PoolKind::small, kMain,
                                   device.allocator.address(block), row.segment}});
}

TEST_CASE("a request of nothing takes nothing") {
  Device device;
  const Allocation got = device.allocator.malloc(0, kMain);
  CHECK(got.status == AllocStatus::empty);
  CHECK(got.address == 0);
  CHECK_FALSE(got.block);
  CHECK(device.allocator.stats() == Stats{});
  CHECK(device.log.segments.empty());
}

TEST_CASE("more than 1 EiB is refused before anything else") {
  Device device;
  CHECK(device.try_malloc(kMaxRequest + 1) == AllocStatus::too_big);
  CHECK(device.allocator.stats() == Stats{});
  CHECK(device.try_malloc(kMaxRequest) == AllocStatus::out_of_memory);
  CHECK(device.allocator.stats().num_ooms == 1);
}

TEST_CASE("two halves of a small segment merge and go back to the driver") {
  Device device;
  const BlockId a = device.malloc(1 * MiB);
  CHECK(device.usage().inactive_split == 1 * MiB);
  const BlockId b = device.malloc(1 * MiB);
  CHECK(device.usage().inactive_split == 0);
  CHECK(device.usage().reserved == 2 * MiB);
  device.free(a);
  CHECK(device.usage().inactive_split == 1 * MiB);
  device.free(b);
  CHECK(device.usage().inactive_split == 0);
  CHECK(device.allocator.largest_free_block() == 2 * MiB);
  const DriverCalls calls = device.allocator.empty_cache();
  CHECK(calls.frees == 1);
  CHECK(calls.bytes_released == 2 * MiB);
  CHECK(device.usage() == Usage{});
  CHECK(device.memory.used() == 0);
}

TEST_CASE("slack of up to 1 MiB counts as allocated, not as requested") {
  Device device;
  device.free(device.malloc(12 * MiB));
  const BlockId y = device.malloc(11 * MiB);
  CHECK(device.allocator.block_size(y) == 12 * MiB);
  CHECK(device.usage() == Usage{11 * MiB, 12 * MiB, 12 * MiB, 12 * MiB, 0});
}

TEST_CASE("streams do not share blocks") {
  Device device;
  device.free(device.malloc(100 * MiB, kMain));
  device.malloc(100 * MiB, kSide);
  CHECK(device.usage().reserved == 200 * MiB);
  device.malloc(100 * MiB, kMain);
  CHECK(device.usage().reserved == 200 * MiB);
}

TEST_CASE("the best fit is taken, the lowest address among equals, and its front handed out") {
  Device device;
  const BlockId big = device.malloc(60 * MiB);
  const BlockId first = device.malloc(40 * MiB);
  const BlockId second = device.malloc(40 * MiB);
  const Address low = device.allocator.address(first);
  const Address high = device.allocator.address(second);
  REQUIRE(low < high);
  for (const BlockId block : {second, big, first}) device.free(block);
  CHECK(device.allocator.address(device.malloc(38 * MiB)) == low);
  CHECK(device.allocator.address(device.malloc(38 * MiB)) == high);
  // What is left of the first two is 2 MiB each; the lower one fits exactly.
  CHECK(device.allocator.address(device.malloc(2 * MiB)) == low + 38 * MiB);
  CHECK(device.usage().reserved == 140 * MiB);
}

TEST_CASE("a block merges with both neighbours, whatever the order of frees") {
  Device device;
  const BlockId a = device.malloc(2 * MiB);
  const BlockId b = device.malloc(2 * MiB);
  const BlockId c = device.malloc(2 * MiB);
  const Address base = device.allocator.address(a);
  device.free(a);
  device.free(c);  // merges with the rest of the 20 MiB segment
  CHECK(device.allocator.largest_free_block() == 16 * MiB);
  device.free(b);
  CHECK(device.allocator.largest_free_block() == 20 * MiB);
  const Layout layout = device.allocator.layout();
  REQUIRE(layout.size() == 1);
  CHECK(layout[0].blocks ==
        std::vector<BlockLayout>{{BlockState::free, base, 20 * MiB, 0, {}, {}}});
}

TEST_CASE("a hit makes no driver call, a miss says what it cost") {
  Device device;
  const Allocation miss = device.allocator.malloc(5 * MiB, kMain);
  CHECK(miss.called_driver);
  CHECK(device.allocator.last_calls().mallocs == 1);
  CHECK(device.allocator.last_calls().bytes_allocated == 20 * MiB);
  const Allocation hit = device.allocator.malloc(5 * MiB, kMain);
  CHECK_FALSE(hit.called_driver);
  CHECK(device.allocator.last_calls() == DriverCalls{});
  device.free(hit.block);
  CHECK(device.allocator.last_calls() == DriverCalls{});
}

TEST_CASE("a copy goes its own way") {
  Device device;
  const BlockId a = device.malloc(30 * MiB);
  SimulatedMemory memory = device.memory;
  ManualClock clock = device.clock;
  CachingAllocator copy(device.allocator, memory, clock);
  copy.free(a);
  copy.empty_cache();
  CHECK(copy.usage().reserved == 0);
  CHECK(memory.used() == 0);
  CHECK(device.usage().reserved == 30 * MiB);
  CHECK(device.memory.used() == 30 * MiB);
  device.free(a);
}

}  // namespace foregather::alloc::test
