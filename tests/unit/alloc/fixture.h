// An allocator over simulated memory, a hand-moved clock and a log of segment events.
#pragma once

#include <string_view>
#include <vector>
#include <catch2/catch.hpp>

#include "core/alloc/caching_allocator.h"
#include "core/alloc/simulated_memory.h"
#include "tests/unit/alloc/manual_clock.h"

namespace foregather::alloc::test {

struct Log final : AllocatorSink {
  void segment(const SegmentEvent& event) override { segments.push_back(event); }
  void free_completed(BlockId block) override { completed.push_back(block); }
  void out_of_memory(Bytes requested, StreamId, Bytes available) override {
    ooms.emplace_back(requested, available);
  }
  int count(SegmentAction action) const {
    int found = 0;
    for (const SegmentEvent& event : segments) found += event.action == action ? 1 : 0;
    return found;
  }

  std::vector<SegmentEvent> segments;
  std::vector<BlockId> completed;
  std::vector<std::pair<Bytes, Bytes>> ooms;
};

inline AllocConfig conf(std::string_view text) {
  const auto config = parse_alloc_conf(text);
  REQUIRE(config);
  return *config;
}

struct Device {
  explicit Device(std::string_view text = "", Bytes capacity = SimulatedMemory::kUnlimited)
      : memory(capacity), allocator(conf(text), memory, clock) {
    allocator.set_sink(&log);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// A malloc that must succeed.
  BlockId malloc(Bytes bytes, StreamId stream = StreamId(0)) {
    const Allocation got = allocator.malloc(bytes, stream);
    REQUIRE(got.ok());
    return got.block;
  }
  AllocStatus try_malloc(Bytes bytes, StreamId stream = StreamId(0)) {
    return allocator.malloc(bytes, stream).status;
  }
  void free(BlockId block) { allocator.free(block); }
  Usage usage() const { return allocator.usage(); }

  SimulatedMemory memory;
  ManualClock clock;
  Log log;
  CachingAllocator allocator;
};

inline constexpr StreamId kMain{std::size_t{0}};
inline constexpr StreamId kSide{std::size_t{1}};
inline constexpr StreamId kThird{std::size_t{2}};

}  // namespace foregather::alloc::test
