#include "core/alloc/what_if.h"

#include <algorithm>
#include <array>

#include "core/alloc/adopted_memory.h"
#include "core/alloc/caching_allocator.h"
#include "core/alloc/digests.h"
#include "core/alloc/live_blocks.h"
#include "core/alloc/recorded_device.h"

namespace foregather::alloc {
namespace {

constexpr Address kColdBase = Address{1} << 40;
constexpr Address kBaseAboveRecorded = Address{1} << 48;
constexpr Address kArenas = Address{1} << 50;

/// Counts segment events.
class Counter final : public AllocatorSink {
 public:
  void segment(const SegmentEvent&) override { ++count; }
  std::size_t count = 0;
};

class WhatIfReplay {
 public:
  WhatIfReplay(const Recording& recording, const Replay& replayed, const WhatIf& question,
               Address base)
      : recording_(recording),
        events_(recording.events),
        replayed_(replayed),
        question_(question),
        capacity_(question.capacity.value_or(SimulatedMemory::kUnlimited)),
        memory_(is_cold() ? Layout{} : replayed.start.layout, capacity_, base),
        clock_(recording.streams.size()),
        allocator_(question.config, memory_, clock_),
        live_(allocator_, clock_) {}

  Result<WhatIfFigures> run() {
    for (std::size_t stream = 0; stream < recording_.streams.size(); ++stream)
      allocator_.set_stream_handle(StreamId(stream), recording_.streams[stream]);
    allocator_.set_sink(&counter_);
    if (is_cold())
      allocate_live_blocks();
    else if (Status restored = restore(); !restored)
      return tl::unexpected(restored.error());
    find_releases();
    for (std::size_t at = 0; at < events_.size();) at = step(at);
    return figures();
  }

 private:
  bool is_cold() const { return question_.start == WhatIfStart::cold; }

  void allocate_live_blocks() {
    for (const SegmentLayout& segment : replayed_.start.layout)
      for (const BlockLayout& block : segment.blocks) {
        if (block.state != BlockState::allocated && block.state != BlockState::waiting) continue;
        malloc(block.address, block.requested, segment.stream, {});
        if (block.state == BlockState::waiting) live_.request_free(block.address);
      }
  }

  Status restore() {
    for (const SegmentLayout& segment : replayed_.start.layout)
      for (const BlockLayout& block : segment.blocks)
        if (block.state == BlockState::waiting) clock_.acquire();
    const auto ids = allocator_.restore(replayed_.start.layout);
    if (!ids) return tl::unexpected(ids.error());
    std::size_t next = 0;
    for (const SegmentLayout& segment : replayed_.start.layout)
      for (const BlockLayout& block : segment.blocks) {
        if (block.state != BlockState::allocated && block.state != BlockState::waiting) continue;
        LiveBlock live{(*ids)[next++], 0, {}};
        if (block.state == BlockState::waiting) live.waits_for = block.uses.front();
        live_.add(block.address, live);
      }
    allocator_.reset_peak_stats();
    return {};
  }

  // First events of runs in which the program emptied the cache.
  void find_releases() {
    if (!is_cold()) {
      releases_ = replayed_.empty_caches;
      return;
    }
    for (std::size_t at = 0; at < events_.size(); ++at)
      if (is_release(events_[at].action) && events_[at].in_empty_cache &&
          (at == 0 || !is_release(events_[at - 1].action)))
        releases_.push_back(at);
  }

  std::size_t step(std::size_t at) {
    const RecordedEvent& event = events_[at];
    switch (event.action) {
      case RecordedAction::alloc: malloc(event.address, event.size, event.stream, at); break;
      case RecordedAction::oom: try_again(at); break;
      case RecordedAction::free_requested: return free(at);
      case RecordedAction::free_completed: return complete_free(at);
      case RecordedAction::segment_free:
      case RecordedAction::segment_unmap:
        if (std::binary_search(releases_.begin(), releases_.end(), at)) allocator_.empty_cache();
        break;
      default: break;
    }
    return at + 1;
  }

  void malloc(Address recorded, Bytes size, StreamId stream, std::optional<std::size_t> at) {
    const Allocation got = allocator_.malloc(std::max<Bytes>(size, 0), stream);
    if (!got.ok()) {
      if (!out_.first_oom) out_.first_oom = at;
      return;
    }
    live_.add(recorded, {got.block, 0, {}});
    digest_.add(std::array{id_++, got.address, allocator_.block_size(got.block)}, ':', ';');
  }

  void try_again(std::size_t at) {
    ++out_.recorded_ooms;
    if (!question_.capacity) return;
    const Allocation got =
        allocator_.malloc(std::max<Bytes>(events_[at].size, 0), events_[at].stream);
    if (got.ok())
      allocator_.free(got.block);
    else if (!out_.first_oom)
      out_.first_oom = at;
  }

  std::optional<WaitingMalloc> malloc_waiting_from(std::size_t at) const {
    const auto& mallocs = replayed_.waiting_mallocs;
    const auto found = std::ranges::lower_bound(mallocs, at, {}, &WaitingMalloc::first);
    if (found == mallocs.end() || found->first != at) return std::nullopt;
    return *found;
  }

  // A malloc that waited for the streams did not have these blocks yet.
  std::size_t complete_free(std::size_t at) {
    const auto waiting = malloc_waiting_from(at);
    if (!waiting) {
      live_.complete_free(events_[at].address);
      return at + 1;
    }
    std::vector<LiveBlock> blocks;
    for (; events_[at].action == RecordedAction::free_completed; ++at)
      if (const auto block = live_.take_waiting(events_[at].address)) blocks.push_back(*block);
    const std::size_t next = step(waiting->malloc);
    for (const LiveBlock& block : blocks) live_.complete(block);
    return next;
  }

  std::size_t free(std::size_t at) {
    const Address address = events_[at].address;
    const bool at_once = at + 1 < events_.size() &&
                         events_[at + 1].action == RecordedAction::free_completed &&
                         events_[at + 1].address == address && !malloc_waiting_from(at + 1);
    if (at_once)
      live_.free(address);
    else
      live_.request_free(address);
    return at + (at_once ? 2 : 1);
  }

  WhatIfFigures figures() {
    out_.peak = allocator_.peak();
    out_.at_end = allocator_.usage();
    out_.segment_events = counter_.count;
    const Stats stats = allocator_.stats();
    out_.retries = stats.num_alloc_retries;
    out_.ooms = stats.num_ooms;
    out_.address_digest = digest_.finish().substr(0, 16);
    return out_;
  }

  const Recording& recording_;
  const std::vector<RecordedEvent>& events_;
  const Replay& replayed_;
  const WhatIf& question_;
  const Bytes capacity_;
  AdoptedMemory memory_;
  RecordedClock clock_;
  CachingAllocator allocator_;
  LiveBlocks live_;
  Counter counter_;
  NumberDigest digest_;
  WhatIfFigures out_;
  std::vector<std::size_t> releases_;
  std::int64_t id_ = 0;
};

// Above everything recorded.
Address base_of(const Layout& layout) {
  Address base = kBaseAboveRecorded;
  for (const SegmentLayout& segment : layout)
    base = std::max(base, round_up(segment.address + segment.size, 2 * MiB));
  return base;
}

}  // namespace

double WhatIfFigures::fragmentation() const {
  if (peak.reserved == 0) return 0;
  return static_cast<double>(peak.reserved - peak.active) / static_cast<double>(peak.reserved);
}

Result<WhatIfFigures> what_if(const Recording& recording, const Replay& replayed,
                              const WhatIf& question) {
  const bool is_cold = question.start == WhatIfStart::cold;
  const Address base = is_cold ? kColdBase : base_of(replayed.start.layout);
  if (base >= kArenas)
    return fail("the recorded addresses reach {:#x}, expected less than {:#x}", base, kArenas);
  return WhatIfReplay(recording, replayed, question, base).run();
}

}  // namespace foregather::alloc
