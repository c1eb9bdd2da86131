#include "tests/unit/alloc/random_recording.h"

#include <algorithm>
#include <random>
#include <catch2/catch.hpp>

#include "core/alloc/caching_allocator.h"
#include "tests/unit/alloc/manual_clock.h"
#include "tests/unit/alloc/scattered_memory.h"

namespace foregather::alloc::test {
namespace {

class Recorder final : public AllocatorSink {
 public:
  explicit Recorder(const RandomProgram& program)
      : program_(program),
        random_(program.seed),
        memory_(program.capacity, program.seed),
        allocator_(parse_alloc_conf(program.conf).value(), memory_, clock_) {
    allocator_.set_sink(this);
    out_.recording.config = allocator_.config();
    for (std::size_t i = 0; i < program.streams; ++i) {
      out_.recording.streams.push_back(handle(i));
      allocator_.set_stream_handle(StreamId(i), handle(i));
    }
  }

  RandomRecording run() {
    for (int i = 0; i < program_.calls; ++i) call();
    out_.recording.at_end = as_recorded(allocator_.layout());
    out_.retries = allocator_.stats().num_alloc_retries;
    return std::move(out_);
  }

  void segment(const SegmentEvent& event) override {
    constexpr RecordedAction kActions[] = {
        RecordedAction::segment_alloc, RecordedAction::segment_free, RecordedAction::segment_map,
        RecordedAction::segment_unmap};
    add(kActions[static_cast<std::size_t>(event.action)], event.address, event.size, event.stream);
  }
  void free_completed(BlockId block) override {
    add(RecordedAction::free_completed, allocator_.address(block), allocator_.requested_size(block),
        stream_of_[block.row()]);
  }
  void out_of_memory(Bytes requested, StreamId stream, Bytes available) override {
    add(RecordedAction::oom, available, requested, stream);
  }

 private:
  // In no order.
  static std::uint64_t handle(std::size_t stream) { return stream == 0 ? 0 : 900 - stream * 100; }

  std::uint32_t below(std::size_t limit) {
    return static_cast<std::uint32_t>(random_() % std::max<std::size_t>(limit, 1));
  }

  void add(RecordedAction action, Address address, Bytes size, StreamId stream) {
    out_.recording.events.push_back(
        {address, size, stream, action, in_empty_cache_ && program_.names_empty_cache});
  }

  void call() {
    out_.before.emplace_back(out_.recording.events.size(), allocator_.layout());
    clock_.now += below(3);
    const std::uint32_t choice = below(100);
    if (choice < 55 || live_.empty()) return malloc();
    if (choice < 96) return free(below(live_.size()));
    if (choice < 97) return free_all();
    if (choice < 98 && program_.switches_expandable) {
      allocator_.set_expandable_segments(!allocator_.config().expandable_segments);
      return;
    }
    in_empty_cache_ = true;
    ++out_.empty_caches;
    allocator_.empty_cache();
    in_empty_cache_ = false;
  }

  Bytes size() {
    const std::uint32_t kind = below(10);
    if (kind < 3) return 1 + below(4096);
    if (kind < 5) return 1 + below(2 * MiB);
    if (kind < 8) return 1 + below(24 * MiB);
    if (kind < 9) return (1 + below(40)) * MiB + (below(2) == 0 ? 0 : below(MiB));
    return 1 + below(200 * MiB);
  }

  void malloc() {
    const Bytes bytes = size();
    const StreamId stream(below(program_.streams));
    const Allocation got = allocator_.malloc(bytes, stream);
    if (!got.ok()) return;
    add(RecordedAction::alloc, got.address, bytes, stream);
    if (got.block.row() >= stream_of_.size()) stream_of_.resize(got.block.row() + 1);
    stream_of_[got.block.row()] = stream;
    live_.push_back(got.block);
  }

  void free(std::size_t which) {
    const BlockId block = live_[which];
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(which));
    const Address address = allocator_.address(block);
    const Bytes bytes = allocator_.requested_size(block);
    const StreamId stream = stream_of_[block.row()];
    const StreamId other(below(program_.streams));
    const bool defers = program_.defers && below(3) == 0 && other != stream;
    if (defers) {
      clock_.work(other, below(12));
      allocator_.record_stream(block, other);
    }
    add(RecordedAction::free_requested, address, bytes, stream);
    allocator_.free(block);
    if (!defers) add(RecordedAction::free_completed, address, bytes, stream);
  }

  void free_all() {
    while (!live_.empty()) free(live_.size() - 1);
  }

  const RandomProgram program_;
  std::mt19937 random_;
  ScatteredMemory memory_;
  ManualClock clock_;
  CachingAllocator allocator_;
  RandomRecording out_;
  std::vector<BlockId> live_;
  std::vector<StreamId> stream_of_;  // by block
  bool in_empty_cache_ = false;
};

}  // namespace

RandomRecording record(const RandomProgram& program) { return Recorder(program).run(); }

Recording cut(const Recording& recording, std::size_t dropped) {
  Recording out = recording;
  out.events.erase(out.events.begin(), out.events.begin() + static_cast<std::ptrdiff_t>(dropped));
  return out;
}

Layout as_recorded(const Layout& layout) {
  Layout out;
  for (const SegmentLayout& segment : layout) {
    bool is_open = false;
    for (const BlockLayout& block : segment.blocks) {
      if (block.state == BlockState::unmapped) {
        is_open = false;
        continue;
      }
      if (!is_open) {
        SegmentLayout range = segment;
        range.address = block.address;
        range.size = 0;
        range.blocks.clear();
        out.push_back(std::move(range));
        is_open = true;
      }
      out.back().size += block.size;
      out.back().blocks.push_back(block);
      out.back().blocks.back().id = {};
      out.back().blocks.back().uses.clear();
    }
  }
  return out;
}

}  // namespace foregather::alloc::test
