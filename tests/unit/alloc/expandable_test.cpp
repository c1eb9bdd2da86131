// Expandable segments.
#include <catch2/catch.hpp>

#include "tests/unit/alloc/fixture.h"

namespace foregather::alloc::test {
namespace {

constexpr std::string_view kOn = "expandable_segments:True";

std::vector<BlockState> states(const CachingAllocator& allocator) {
  std::vector<BlockState> out;
  for (const SegmentLayout& segment : allocator.layout()) {
    for (const BlockLayout& block : segment.blocks) out.push_back(block.state);
  }
  return out;
}

constexpr BlockState A = BlockState::allocated;
constexpr BlockState F = BlockState::free;
constexpr BlockState U = BlockState::unmapped;

}  // namespace

TEST_CASE("only missing granules are mapped") {
  Device device(kOn, 1 * GiB);
  const BlockId first = device.malloc(30 * MiB);
  CHECK(device.usage().reserved == 40 * MiB);
  CHECK(device.allocator.block_size(first) == 30 * MiB);
  CHECK(device.allocator.largest_free_block() == 10 * MiB);
  CHECK(device.allocator.last_calls().granules == 2);
  const BlockId second = device.malloc(15 * MiB);
  CHECK(device.usage().reserved == 60 * MiB);
  CHECK(device.allocator.address(second) == device.allocator.address(first) + 30 * MiB);
  const Stats stats = device.allocator.stats();
  CHECK(stats.all.segment == Stat{});
  CHECK(stats.all.inactive_split == Stat{});
  CHECK(stats.num_device_alloc == 2);
  CHECK(states(device.allocator) == std::vector<BlockState>{A, A, F, U});
}

TEST_CASE("a segment has room for nine eighths of the device") {
  Device device(kOn, 1000 * MiB);
  device.malloc(1 * MiB);   // granules of 2 MiB
  device.malloc(12 * MiB);  // granules of 20 MiB
  const Layout layout = device.allocator.layout();
  REQUIRE(layout.size() == 2);
  CHECK(layout[0].size == 1126 * MiB);
  CHECK(layout[1].size == 1140 * MiB);
  CHECK(device.usage().reserved == 22 * MiB);
}

TEST_CASE("each pool and stream has its own segment") {
  Device device(kOn, 1 * GiB);
  device.malloc(1, kMain);
  device.malloc(12 * MiB, kMain);
  device.malloc(12 * MiB, kSide);
  CHECK(device.allocator.layout().size() == 3);
}

TEST_CASE("remainders of 512 bytes are split off in the large pool too") {
  Device device(kOn, 1 * GiB);
  device.malloc(20 * MiB - 512);
  CHECK(device.usage().allocated == 20 * MiB - 512);
  CHECK(device.allocator.largest_free_block() == 512);
}

TEST_CASE("empty_cache unmaps whole granules and gives an empty segment back") {
  Device device(kOn, 1 * GiB);
  const BlockId a = device.malloc(30 * MiB);
  const BlockId b = device.malloc(30 * MiB);
  const BlockId c = device.malloc(30 * MiB);
  CHECK(device.usage().reserved == 100 * MiB);
  device.free(b);  // 30 … 60 MiB: one whole granule from 40 to 60
  const DriverCalls calls = device.allocator.empty_cache();
  // … and the free tail from 90 to 100 MiB is no whole granule.
  CHECK(calls.unmaps == 1);
  CHECK(calls.granules == 1);
  CHECK(device.usage().reserved == 80 * MiB);
  CHECK(states(device.allocator) == std::vector<BlockState>{A, F, U, A, F, U});
  device.free(a);
  device.free(c);
  device.allocator.empty_cache();
  CHECK(device.usage() == Usage{});
  CHECK(device.allocator.layout().empty());
  CHECK(device.memory.used() == 0);
}

TEST_CASE("a hole is filled again before the segment grows") {
  Device device(kOn, 1 * GiB);
  const BlockId a = device.malloc(40 * MiB);
  const BlockId b = device.malloc(40 * MiB);
  device.malloc(40 * MiB);
  const Address hole = device.allocator.address(b);
  device.free(b);
  device.allocator.empty_cache();
  CHECK(device.usage().reserved == 80 * MiB);
  const BlockId again = device.malloc(30 * MiB);
  CHECK(device.allocator.address(again) == hole);
  CHECK(device.usage().reserved == 120 * MiB);
  CHECK(states(device.allocator) == std::vector<BlockState>{A, A, F, A, U});
  device.free(a);
}

TEST_CASE("a run may start with the idle block before an unmapped one and cross mapped blocks") {
  Device device(kOn, 1 * GiB);
  const BlockId a = device.malloc(30 * MiB);
  const BlockId b = device.malloc(60 * MiB);  // 30 … 90
  const BlockId c = device.malloc(30 * MiB);  // 90 … 120
  device.free(b);
  device.allocator.empty_cache();  // 40 … 80 unmapped; 30 … 40 and 80 … 90 stay
  CHECK(states(device.allocator) == std::vector<BlockState>{A, F, U, F, A, U});
  device.log.segments.clear();
  const BlockId across = device.malloc(55 * MiB);  // 10 + 40 + 5 of the 10 that stayed
  CHECK(device.allocator.address(across) == device.allocator.address(a) + 30 * MiB);
  CHECK(device.log.segments.size() == 1);
  CHECK(device.log.segments[0].size == 40 * MiB);
  CHECK(device.usage().reserved == 120 * MiB);
  device.free(c);
}

TEST_CASE("one request may map several holes") {
  Device device(kOn, 1 * GiB);
  const BlockId a = device.malloc(25 * MiB);  // 0 … 25
  const BlockId b = device.malloc(25 * MiB);  // 25 … 50
  const BlockId c = device.malloc(25 * MiB);  // 50 … 75, mapped to 80
  device.free(a);
  device.free(c);
  device.allocator.empty_cache();  // 0 … 20 and 60 … 80 go
  CHECK(states(device.allocator) == std::vector<BlockState>{U, F, A, F, U});
  device.free(b);  // 20 … 60 free between two holes
  device.log.segments.clear();
  const BlockId all = device.malloc(70 * MiB);
  CHECK(device.log.count(SegmentAction::map) == 2);
  CHECK(device.usage().reserved == 80 * MiB);
  CHECK(device.allocator.block_size(all) == 70 * MiB);
}

TEST_CASE("blocks with less room to grow are used first") {
  Device device(kOn, 1 * GiB);
  const BlockId a = device.malloc(20 * MiB);
  const BlockId gap = device.malloc(22 * MiB);
  const BlockId wall = device.malloc(30 * MiB);
  device.malloc(1 * MiB + 512);
  // Free: 22 MiB between blocks, and the tail of the mapped range with all of the segment behind.
  const Address closed = device.allocator.address(gap);
  device.free(gap);
  const Bytes tail = 80 * MiB - (20 + 22 + 30 + 1) * MiB - 512;
  CHECK(device.allocator.largest_free_block() == 22 * MiB);
  REQUIRE(tail > 5 * MiB);
  // 5 MiB fit best into the tail, but the tail can grow.
  CHECK(device.allocator.address(device.malloc(5 * MiB)) == closed);
  device.free(a);
  device.free(wall);
}

TEST_CASE("a failed map keeps what earlier maps of the request got") {
  Device device(kOn, 80 * MiB);
  const BlockId a = device.malloc(25 * MiB);
  const BlockId b = device.malloc(25 * MiB);
  const BlockId c = device.malloc(25 * MiB);
  device.free(a);
  device.free(c);
  device.allocator.empty_cache();
  CHECK(device.usage().reserved == 40 * MiB);
  device.free(b);
  device.memory.change_capacity(-20 * MiB);  // one granule left for two holes
  device.log.segments.clear();
  CHECK(device.try_malloc(70 * MiB) == AllocStatus::out_of_memory);
  CHECK(device.allocator.last_calls().failed_mallocs == 2);
  // First attempt: the hole 0 … 20 mapped, the hole 60 … 80 failed. Then everything is unmapped.
  REQUIRE(device.log.segments.size() == 2);
  CHECK(device.log.segments[0].action == SegmentAction::map);
  CHECK(device.log.segments[0].size == 20 * MiB);
  CHECK(device.log.segments[1].action == SegmentAction::unmap);
  CHECK(device.log.segments[1].size == 60 * MiB);
  CHECK(device.allocator.stats().num_ooms == 1);
}

TEST_CASE("a reservation whose first map failed stays, without memory, and is mapped later") {
  Device device(kOn, 20 * MiB);
  const BlockId large = device.malloc(20 * MiB);
  CHECK(device.try_malloc(1 * MiB) == AllocStatus::out_of_memory);
  device.free(large);
  device.allocator.empty_cache();
  CHECK(device.usage() == Usage{});
  REQUIRE(device.allocator.layout().size() == 1);
  const SegmentLayout left = device.allocator.layout().front();
  REQUIRE(left.blocks.size() == 1);
  CHECK(left.blocks.front().state == BlockState::unmapped);
  CHECK(device.allocator.address(device.malloc(1 * MiB)) == left.address);
  CHECK(device.usage().reserved == 2 * MiB);
}

TEST_CASE("a full device unmaps cached granules of other streams") {
  Device device(kOn, 100 * MiB);
  device.free(device.malloc(60 * MiB, kSide));
  CHECK(device.try_malloc(80 * MiB, kMain) == AllocStatus::ok);
  CHECK(device.allocator.stats().num_alloc_retries == 1);
  CHECK(device.usage().reserved == 80 * MiB);
  CHECK(device.allocator.layout().size() == 1);
}

TEST_CASE("the fraction gate counts the size that a segment would have had") {
  Device device("expandable_segments:True,per_process_memory_fraction:0.5", 100 * MiB);
  device.malloc(36 * MiB);
  CHECK(device.usage().reserved == 40 * MiB);
  device.malloc(4 * MiB);                                           // from the mapped rest
  CHECK(device.try_malloc(9 * MiB) == AllocStatus::out_of_memory);  // gate: 20 MiB
  CHECK(device.try_malloc(10 * MiB) == AllocStatus::ok);            // gate: 10 MiB; maps 20
  CHECK(device.usage().reserved == 60 * MiB);
}

TEST_CASE("switched off, expandable blocks are left alone") {
  Device device(kOn, 1 * GiB);
  device.free(device.malloc(40 * MiB));
  device.allocator.set_expandable_segments(false);
  const BlockId plain = device.malloc(30 * MiB);
  CHECK(device.log.segments.back().action == SegmentAction::alloc);
  CHECK(device.usage().reserved == 70 * MiB);
  device.free(plain);
  device.malloc(30 * MiB);  // skips the expandable 40 MiB block only if it is met first
  CHECK(device.usage().reserved == 70 * MiB);
  device.allocator.set_expandable_segments(true);
  device.malloc(35 * MiB);
  CHECK(device.usage().reserved == 70 * MiB);
}

TEST_CASE("switched off, the search goes past expandable blocks of a better fit") {
  Device device("", 1 * GiB);
  const BlockId plain = device.malloc(60 * MiB);
  device.allocator.set_expandable_segments(true);
  const BlockId expandable = device.malloc(40 * MiB);
  device.free(expandable);
  device.free(plain);
  device.allocator.set_expandable_segments(false);
  device.malloc(38 * MiB);
  CHECK(device.usage().reserved == 100 * MiB);
  CHECK(device.usage().inactive_split == 22 * MiB);
}

}  // namespace foregather::alloc::test
