// Any bytes as calls of the caching allocator: a configuration, then malloc, free, record_stream
// and empty_cache. Segments must not overlap, blocks fill them, and the sums be those of the
// blocks.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "core/alloc/caching_allocator.h"
#include "core/alloc/layout.h"
#include "core/alloc/simulated_memory.h"

using namespace foregather;
using namespace foregather::alloc;

namespace {

class Bytes8 {
 public:
  Bytes8(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}
  bool empty() const { return at_ == end_; }
  std::uint64_t next() { return at_ == end_ ? 0 : *at_++; }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

AllocConfig config_of(Bytes8& bytes, std::uint64_t flags) {
  AllocConfig config;
  config.expandable_segments = (flags & 1) != 0;
  if ((flags & 2) != 0) config.max_split_size = 20 * MiB << (bytes.next() % 4);
  if ((flags & 4) != 0) config.roundup_power2_divisions.fill(4);
  if ((flags & 8) != 0) {
    config.memory_fraction = 0.9;
    config.garbage_collection_threshold = 0.5;
  }
  return config;
}

void check(const CachingAllocator& allocator, const SimulatedMemory& memory) {
  Bytes reserved = 0, allocated = 0;
  Address end = 0;
  for (const SegmentLayout& segment : allocator.layout()) {
    if (segment.address < end) std::abort();
    end = segment.address;
    for (const BlockLayout& block : segment.blocks) {
      if (block.address != end || block.size <= 0) std::abort();
      end += block.size;
      if (block.state != BlockState::unmapped) reserved += block.size;
      if (block.state == BlockState::allocated) allocated += block.size;
    }
    if (end != segment.address + segment.size) std::abort();
  }
  if (reserved != allocator.usage().reserved || reserved != memory.used()) std::abort();
  if (allocated != allocator.usage().allocated) std::abort();
  const Usage& peak = allocator.peak();
  if (peak.allocated < allocated || peak.active < allocated || peak.reserved < reserved)
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMostCalls = 2048;
  Bytes8 bytes(data, size);
  const std::uint64_t flags = bytes.next();
  const AllocConfig config = config_of(bytes, flags);
  SimulatedMemory memory(GiB);
  InstantClock clock;
  CachingAllocator allocator(config, memory, clock);
  if ((flags & 16) != 0) allocator.keep_usage_only();
  std::vector<BlockId> live;
  for (std::size_t call = 0; call < kMostCalls && !bytes.empty(); ++call) {
    const std::uint64_t what = bytes.next();
    if (what < 140 || live.empty()) {
      const Bytes wanted = static_cast<Bytes>(bytes.next() + 1) << (bytes.next() % 24);
      const Allocation got = allocator.malloc(wanted, StreamId(what % 3));
      if (got.ok()) live.push_back(got.block);
    } else if (what < 240) {
      const std::size_t which = bytes.next() % live.size();
      allocator.free(live[which]);
      live[which] = live.back();
      live.pop_back();
    } else if (what < 252) {
      allocator.record_stream(live[bytes.next() % live.size()], StreamId(what % 3));
    } else {
      allocator.empty_cache();
    }
    if (call % 16 == 0) check(allocator, memory);
  }
  for (const BlockId block : live) allocator.free(block);
  allocator.process_events();
  allocator.empty_cache();
  check(allocator, memory);
  if (allocator.usage().allocated != 0) std::abort();
  return 0;
}
