// What holds after any sequence of calls, counted again from the blocks themselves.
#include <map>
#include <catch2/catch.hpp>
#include <rapidcheck.h>

#include "tests/unit/alloc/fixture.h"

namespace foregather::alloc::test {
namespace {

struct Recount {
  Usage usage;
  std::int64_t blocks = 0, segments = 0, splits = 0;
};

// Segments do not overlap, blocks fill them, and neighbouring free blocks have merged.
Recount recount(const Layout& layout) {
  Recount sum;
  Address end = 0;
  for (const SegmentLayout& segment : layout) {
    RC_ASSERT(segment.address >= end);
    end = segment.address;
    BlockState before = BlockState::allocated;
    sum.segments += segment.expandable ? 0 : 1;
    for (const BlockLayout& block : segment.blocks) {
      RC_ASSERT(block.address == end);
      RC_ASSERT(block.size > 0);
      end += block.size;
      const bool is_idle = block.state == BlockState::free || block.state == BlockState::unmapped;
      RC_ASSERT(!is_idle || block.state != before);
      before = block.state;
      if (block.state != BlockState::unmapped) sum.usage.reserved += block.size;
      if (block.state == BlockState::free && !segment.expandable && segment.blocks.size() > 1) {
        sum.usage.inactive_split += block.size;
        ++sum.splits;
      }
      if (is_idle) continue;
      ++sum.blocks;
      sum.usage.active += block.size;
      sum.usage.requested += block.requested;
      RC_ASSERT(block.size >= block.requested);
      if (block.state == BlockState::allocated) sum.usage.allocated += block.size;
    }
    RC_ASSERT(end == segment.address + segment.size);
  }
  return sum;
}

void check(const Device& device) {
  const Recount counted = recount(device.allocator.layout());
  const Stats stats = device.allocator.stats();
  RC_ASSERT(counted.usage == device.usage());
  RC_ASSERT(counted.blocks == stats.all.active.current);
  RC_ASSERT(counted.segments == stats.all.segment.current);
  RC_ASSERT(counted.splits == stats.all.inactive_split.current);
  RC_ASSERT(counted.usage.reserved == device.memory.used());
  const Usage usage = device.usage();
  RC_ASSERT(usage.reserved >= usage.active);
  RC_ASSERT(usage.active >= usage.allocated);
  RC_ASSERT(usage.active >= usage.requested);
  // A block that waits for events is requested but not allocated any more.
  RC_ASSERT(device.allocator.has_pending() || usage.allocated >= usage.requested);
}

void random_calls(std::string_view conf, Bytes capacity) {
  Device device(conf, capacity);
  std::vector<BlockId> live;
  const int calls = *rc::gen::inRange(1, 200);
  for (int call = 0; call < calls; ++call) {
    const StreamId stream(*rc::gen::inRange<std::size_t>(0, 3));
    const int what = *rc::gen::inRange(0, 100);
    if (what < 55 || live.empty()) {
      const Bytes most = *rc::gen::element<Bytes>(4096, 3 * MiB, 30 * MiB);
      const Allocation got = device.allocator.malloc(*rc::gen::inRange<Bytes>(1, most), stream);
      if (got.ok()) live.push_back(got.block);
    } else if (what < 92) {
      const auto which = *rc::gen::inRange<std::size_t>(0, live.size());
      if (what % 4 == 0) {
        device.clock.work(stream, 5);
        device.allocator.record_stream(live[which], stream);
      }
      device.free(live[which]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    } else if (what < 96) {
      device.clock.now += 3;
    } else {
      device.allocator.empty_cache();
    }
    if (call % 8 == 0) check(device);
  }
  check(device);
  for (const BlockId block : live) device.free(block);
  device.allocator.empty_cache();
  RC_ASSERT(device.usage() == Usage{});
  // A reservation whose first mapping failed stays, without memory, until a later malloc maps it.
  for (const SegmentLayout& segment : device.allocator.layout()) {
    RC_ASSERT(segment.expandable && segment.blocks.size() == 1);
    RC_ASSERT(segment.blocks[0].state == BlockState::unmapped);
  }
  RC_ASSERT(device.memory.used() == 0);
}

}  // namespace

TEST_CASE("statistics equal a recount, and everything freed and emptied holds no memory") {
  const std::string conf = GENERATE(as<std::string>(), "", "expandable_segments:True",
                                    "max_split_size_mb:21", "roundup_power2_divisions:4");
  const Bytes capacity = GENERATE(300 * MiB, SimulatedMemory::kUnlimited);
  CAPTURE(conf, capacity);
  CHECK(rc::check([&] { random_calls(conf, capacity); }));
}

}  // namespace foregather::alloc::test
