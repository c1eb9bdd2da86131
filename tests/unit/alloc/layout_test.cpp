// Looking at the state, and taking one over.
#include <functional>
#include <catch2/catch.hpp>

#include "tests/unit/alloc/fixture.h"

namespace foregather::alloc::test {
namespace {

/// Memory that holds what `layout` says.
SimulatedMemory memory_of(const Layout& layout, Bytes capacity) {
  SimulatedMemory memory(capacity);
  for (const SegmentLayout& segment : layout) memory.adopt_segment(segment.address, segment.size);
  return memory;
}

Layout one_segment() {
  SegmentLayout segment{1 << 30, 20 * MiB, kMain, PoolKind::large, {}, false, {}};
  segment.blocks = {{BlockState::allocated, 1 << 30, 5 * MiB, 5 * MiB, {}, {}},
                    {BlockState::free, (1 << 30) + 5 * MiB, 15 * MiB, 0, {}, {}}};
  return {segment};
}

std::string refusal(const std::function<void(SegmentLayout&)>& spoil) {
  Layout layout = one_segment();
  spoil(layout[0]);
  SimulatedMemory memory(1 * GiB);
  InstantClock clock;
  CachingAllocator allocator(AllocConfig{}, memory, clock);
  const auto ids = allocator.restore(layout);
  return ids ? "" : ids.error().message;
}

}  // namespace

TEST_CASE("a restored allocator goes on like the original") {
  Device original("", 1 * GiB);
  std::vector<BlockId> blocks;
  for (const Bytes size : {5 * MiB, 1000 * KiB, 7 * KiB, 40 * MiB, 3 * MiB, 11 * MiB, 2 * MiB}) {
    blocks.push_back(original.malloc(size, size % 2 == 0 ? kMain : kSide));
  }
  original.free(blocks[0]);
  original.free(blocks[3]);
  const Layout layout = original.allocator.layout();

  SimulatedMemory memory = memory_of(layout, 1 * GiB);
  ManualClock clock;
  CachingAllocator restored(AllocConfig{}, memory, clock);
  const auto ids = restored.restore(layout);
  REQUIRE(ids);
  CHECK(ids->size() == 5);
  CHECK(restored.usage() == original.usage());
  for (const Bytes size : {4 * MiB, 500 * KiB, 39 * MiB, 60 * MiB, 1 * KiB}) {
    const Allocation a = original.allocator.malloc(size, kMain);
    const Allocation b = restored.malloc(size, kMain);
    CHECK(a.address == b.address);
    CHECK(restored.usage() == original.usage());
  }
}

TEST_CASE("waiting blocks and expandable segments are restored") {
  Device original("expandable_segments:True", 1 * GiB);
  const BlockId a = original.malloc(30 * MiB);
  const BlockId b = original.malloc(30 * MiB);
  original.malloc(30 * MiB);
  original.free(b);
  original.allocator.empty_cache();
  original.allocator.record_stream(a, kSide);
  original.clock.work(kSide, 10);
  original.free(a);
  const Layout layout = original.allocator.layout();

  SimulatedMemory memory(1 * GiB);
  memory.reserve(layout[0].size, kMain);
  memory.adopt_mapped(original.usage().reserved);
  ManualClock clock;
  clock.work(kSide, 10);
  CachingAllocator restored(conf("expandable_segments:True"), memory, clock);
  const auto ids = restored.restore(layout);
  REQUIRE(ids);
  CHECK(ids->size() == 2);
  CHECK(restored.has_pending());
  CHECK(restored.usage() == original.usage());
  clock.now = original.clock.now = 10;
  for (const Bytes size : {25 * MiB, 35 * MiB, 90 * MiB}) {
    CHECK(restored.malloc(size, kMain).address == original.allocator.malloc(size, kMain).address);
    CHECK(restored.usage() == original.usage());
  }
}

TEST_CASE("a layout that cannot be is refused") {
  CHECK(refusal([](SegmentLayout&) {}).empty());
  CHECK_FALSE(refusal([](SegmentLayout& s) { s.blocks.pop_back(); }).empty());
  CHECK_FALSE(refusal([](SegmentLayout& s) { s.blocks.clear(); }).empty());
  CHECK_FALSE(refusal([](SegmentLayout& s) { s.blocks[1].address += 512; }).empty());
  CHECK_FALSE(refusal([](SegmentLayout& s) { s.blocks[0].size += 100; }).empty());
  CHECK_FALSE(refusal([](SegmentLayout& s) { s.blocks[0].state = BlockState::free; }).empty());
  CHECK_FALSE(refusal([](SegmentLayout& s) { s.blocks[0].state = BlockState::unmapped; }).empty());
  CHECK_FALSE(refusal([](SegmentLayout& s) { s.blocks[0].state = BlockState::waiting; }).empty());
  CHECK_FALSE(refusal([](SegmentLayout& s) { s.pool = PoolId(0); }).empty());
  CHECK_FALSE(refusal([](SegmentLayout& s) { s.stream = {}; }).empty());
  CHECK_FALSE(refusal([](SegmentLayout& s) { s.address = 0; }).empty());
}

TEST_CASE("overlapping segments are refused") {
  Layout layout = one_segment();
  layout.push_back(layout[0]);
  SimulatedMemory memory(1 * GiB);
  InstantClock clock;
  CachingAllocator allocator(AllocConfig{}, memory, clock);
  CHECK_FALSE(allocator.restore(layout));
}

}  // namespace foregather::alloc::test
