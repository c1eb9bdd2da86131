// Random programs: the fast allocator against the plain one, and what must always hold.
#include <string>
#include <vector>
#include <catch2/catch.hpp>
#include <rapidcheck.h>

#include "tests/unit/alloc/fixture.h"
#include "tests/unit/alloc/reference_allocator.h"

namespace foregather::alloc::test {
namespace {

/// One allocator beside the other, each with its own memory and clock, fed with the same calls; and
/// beside them the fast one that keeps usage alone.
class Pair {
 public:
  Pair(const AllocConfig& config, Bytes capacity)
      : fast_memory_(capacity),
        lean_memory_(capacity),
        slow_memory_(capacity),
        fast_(config, fast_memory_, fast_clock_),
        lean_(config, lean_memory_, lean_clock_),
        slow_(config, slow_memory_, slow_clock_) {
    fast_.set_sink(&log_);
    lean_.keep_usage_only();
    slow_.handles = {500, 30, 4000};
    for (std::size_t i = 0; i < slow_.handles.size(); ++i) {
      fast_.set_stream_handle(StreamId(i), slow_.handles[i]);
      lean_.set_stream_handle(StreamId(i), slow_.handles[i]);
    }
  }

  void malloc(Bytes bytes, std::size_t stream) {
    const Allocation got = fast_.malloc(bytes, StreamId(stream));
    ReferenceAllocator::Block* expected = slow_.malloc(bytes, stream);
    const Allocation lean = lean_.malloc(bytes, StreamId(stream));
    RC_ASSERT(got.ok() == (expected != nullptr));
    RC_ASSERT(lean.status == got.status);
    if (!got.ok()) return;
    RC_ASSERT(got.address == expected->address);
    RC_ASSERT(fast_.block_size(got.block) == expected->size);
    RC_ASSERT((lean.block == got.block && lean.address == got.address));
    RC_ASSERT((lean.called_driver == got.called_driver && lean.cut_from == got.cut_from));
    live_.emplace_back(got.block, expected);
  }
  void free(std::size_t which) {
    const auto [fast, slow] = live_[which];
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(which));
    fast_.free(fast);
    lean_.free(fast);
    slow_.free(slow);
  }
  void record_stream(std::size_t which, std::size_t stream) {
    fast_.record_stream(live_[which].first, StreamId(stream));
    lean_.record_stream(live_[which].first, StreamId(stream));
    slow_.record_stream(live_[which].second, stream);
  }
  void work(std::size_t stream, Ns length) {
    fast_clock_.work(StreamId(stream), length);
    lean_clock_.work(StreamId(stream), length);
    slow_clock_.work(StreamId(stream), length);
  }
  void wait(Ns time) {
    fast_clock_.now += time;
    lean_clock_.now += time;
    slow_clock_.now += time;
  }
  void empty_cache() {
    fast_.empty_cache();
    lean_.empty_cache();
    slow_.empty_cache();
  }
  void reset_peak() {
    fast_.reset_peak_stats();
    lean_.reset_peak_stats();
    slow_.reset_peak();
  }
  void switch_expandable() {
    slow_.config.expandable_segments = !slow_.config.expandable_segments;
    fast_.set_expandable_segments(slow_.config.expandable_segments);
    lean_.set_expandable_segments(slow_.config.expandable_segments);
  }
  void change_capacity(Bytes change) {
    fast_memory_.change_capacity(change);
    lean_memory_.change_capacity(change);
    slow_memory_.change_capacity(change);
  }
  void create_pool(bool no_split, bool use_on_oom) {
    fast_.create_pool({no_split, use_on_oom});
    lean_.create_pool({no_split, use_on_oom});
    slow_.create_pool(no_split, use_on_oom);
    pools_.push_back(1);
  }
  /// Opens a route to the pool, or closes one; releases the pool if told so.
  void route(std::size_t pool, bool release, std::optional<std::size_t> stream) {
    if (pools_[pool] == 0) return;
    const auto open = std::find(open_.begin(), open_.end(), pool);
    if (open != open_.end()) {
      open_.erase(open);
      fast_.end_allocate_to_pool(PoolId(pool));
      lean_.end_allocate_to_pool(PoolId(pool));
      slow_.end_route(pool);
    } else if (release) {
      pools_[pool] = 0;
      fast_.release_pool(PoolId(pool));
      lean_.release_pool(PoolId(pool));
      slow_.release_pool(pool);
    } else {
      open_.push_back(pool);
      fast_.begin_allocate_to_pool(PoolId(pool), stream ? StreamId(*stream) : StreamId{});
      lean_.begin_allocate_to_pool(PoolId(pool), stream ? StreamId(*stream) : StreamId{});
      slow_.begin_route(pool, stream);
    }
  }
  /// Go on with a copy of the fast one.
  void copy() {
    SimulatedMemory memory = fast_memory_;
    ManualClock clock = fast_clock_;
    const CachingAllocator copied(fast_, memory, clock);
    RC_ASSERT(copied.layout() == fast_.layout());
    RC_ASSERT(copied.stats() == fast_.stats());
  }

  std::size_t live() const { return live_.size(); }
  std::size_t pools() const { return pools_.size(); }

  void compare() const {
    RC_ASSERT(fast_.stats() == slow_.stats);
    RC_ASSERT(without_splits(lean_.usage()) == without_splits(fast_.usage()));
    RC_ASSERT(without_splits(lean_.peak()) == without_splits(fast_.peak()));
    RC_ASSERT(lean_.layout() == fast_.layout());
    RC_ASSERT(log_.segments == slow_.segments);
    RC_ASSERT(fast_.largest_free_block() == slow_.largest_free_block());
    RC_ASSERT(fast_memory_.used() == slow_memory_.used());
    RC_ASSERT(fast_clock_.now == slow_clock_.now);
    RC_ASSERT(lean_clock_.now == slow_clock_.now);
  }

  void check_invariants() const {
    const Usage usage = fast_.usage();
    RC_ASSERT(usage.reserved >= usage.active);
    RC_ASSERT(usage.active >= usage.allocated);
    RC_ASSERT(usage.allocated >= 0);
    RC_ASSERT(usage.reserved == fast_memory_.used());
    Bytes waiting = 0;
    Address end = 0;
    for (const SegmentLayout& segment : fast_.layout()) {
      RC_ASSERT(segment.address >= end);
      end = segment.address + segment.size;
      if (!segment.expandable) {
        RC_ASSERT(segment.size % (2 * MiB) == 0);
        RC_ASSERT((segment.kind == PoolKind::small) == (segment.size == 2 * MiB));
      }
      Address at = segment.address;
      BlockState before = BlockState::allocated;
      for (const BlockLayout& block : segment.blocks) {
        RC_ASSERT(block.address == at);
        RC_ASSERT(block.size > 0);
        RC_ASSERT(block.size % 512 == 0);
        if (block.state == BlockState::free || block.state == BlockState::unmapped) {
          RC_ASSERT(block.state != before);
        }
        if (block.state == BlockState::waiting) waiting += block.size;
        before = block.state;
        at += block.size;
      }
      RC_ASSERT(at == end);
    }
    RC_ASSERT(usage.active - usage.allocated == waiting);
  }

 private:
  static Usage without_splits(Usage usage) {
    usage.inactive_split = 0;
    return usage;
  }

  SimulatedMemory fast_memory_, lean_memory_, slow_memory_;
  ManualClock fast_clock_, lean_clock_, slow_clock_;
  Log log_;
  CachingAllocator fast_, lean_;
  ReferenceAllocator slow_;
  std::vector<std::pair<BlockId, ReferenceAllocator::Block*>> live_;
  std::vector<int> pools_;
  std::vector<std::size_t> open_;
};

Bytes some_size() {
  switch (*rc::gen::inRange(0, 6)) {
    case 0: return *rc::gen::inRange<Bytes>(1, 4096);
    case 1: return *rc::gen::inRange<Bytes>(1, 2 * MiB);
    case 2: return *rc::gen::inRange<Bytes>(1 * MiB, 12 * MiB);
    case 3: return *rc::gen::inRange<Bytes>(1, 8) * 7 * MiB;
    case 4: return *rc::gen::inRange<Bytes>(10 * MiB, 60 * MiB);
    default:
      return *rc::gen::element<Bytes>(512, 1 * MiB, 1 * MiB + 1, 10 * MiB, 20 * MiB, 21 * MiB,
                                      30 * MiB, 45 * MiB);
  }
}

void random_program(std::string_view text, Bytes capacity, bool switches_and_pools) {
  Pair pair(*parse_alloc_conf(text), capacity);
  const int steps = *rc::gen::inRange(1, 400);
  for (int step = 0; step < steps; ++step) {
    const auto stream = *rc::gen::inRange<std::size_t>(0, 3);
    const int what = *rc::gen::inRange(0, switches_and_pools ? 116 : 98);
    if (what < 48 || pair.live() == 0) {
      pair.malloc(some_size(), stream);
    } else if (what < 80) {
      pair.free(*rc::gen::inRange<std::size_t>(0, pair.live()));
    } else if (what < 86) {
      pair.record_stream(*rc::gen::inRange<std::size_t>(0, pair.live()), stream);
    } else if (what < 90) {
      pair.work(stream, *rc::gen::inRange(0, 50));
    } else if (what < 93) {
      pair.wait(*rc::gen::inRange(0, 40));
    } else if (what < 95) {
      pair.empty_cache();
    } else if (what < 96) {
      pair.reset_peak();
    } else if (what < 97) {
      pair.copy();
    } else if (what < 98) {
      pair.change_capacity(*rc::gen::element<Bytes>(-20 * MiB, 20 * MiB));
    } else if (what < 102) {
      pair.switch_expandable();
    } else if (pair.pools() < 4) {
      pair.create_pool(*rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>());
    } else {
      const auto only = *rc::gen::inRange<std::size_t>(0, 4);
      pair.route(*rc::gen::inRange<std::size_t>(0, pair.pools()), *rc::gen::inRange(0, 6) == 0,
                 only < 3 ? std::optional(only) : std::nullopt);
    }
    pair.compare();
    if (step % 16 == 0) pair.check_invariants();
  }
  pair.check_invariants();
}

}  // namespace

TEST_CASE("the fast allocator agrees with the plain one") {
  const std::string conf = GENERATE(
      as<std::string>(), "", "expandable_segments:True", "max_split_size_mb:21",
      "max_split_size_mb:30,max_non_split_rounding_mb:25", "roundup_power2_divisions:4",
      "garbage_collection_threshold:0.4,per_process_memory_fraction:0.9",
      "garbage_collection_threshold:0.6,per_process_memory_fraction:0.8,max_split_size_mb:22",
      "expandable_segments:True,per_process_memory_fraction:0.7,garbage_collection_threshold:0.3",
      "expandable_segments:True,roundup_power2_divisions:[1:2,4:4,>:8]", "large_segment_size_mb:12",
      "expandable_segments:True,large_segment_size_mb:32",
      "expandable_segments:True,max_split_size_mb:40");
  const Bytes capacity = GENERATE(100 * MiB, 400 * MiB, SimulatedMemory::kUnlimited);
  CAPTURE(conf, capacity);
  CHECK(rc::check([&] { random_program(conf, capacity, false); }));
}

TEST_CASE("also when expandable segments are switched and pools come and go") {
  const std::string conf =
      GENERATE(as<std::string>(), "", "expandable_segments:True", "max_split_size_mb:21",
               "garbage_collection_threshold:0.4,per_process_memory_fraction:0.9");
  const Bytes capacity = GENERATE(200 * MiB, 600 * MiB);
  CAPTURE(conf, capacity);
  CHECK(rc::check([&] { random_program(conf, capacity, true); }));
}

}  // namespace foregather::alloc::test
