#include "core/alloc/replay.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <tuple>

#include "core/alloc/caching_allocator.h"
#include "core/alloc/digests.h"
#include "core/alloc/live_blocks.h"
#include "core/alloc/recorded_device.h"

namespace foregather::alloc {
namespace {

bool is_segment(const RecordedEvent& event) {
  return (is_release(event.action) || is_growth(event.action)) && is_possible(event);
}

/// Segment events, of a malloc those of its own.
struct SegmentRun {
  std::size_t first = 0;
  std::size_t last = 0;  ///< the event after them
};

/// What the recording leaves open.
struct Assumptions {
  StartState start;
  /// First events of releases and completions that are no part of a malloc.
  std::set<std::size_t> apart;
  std::set<std::size_t> deferred;  ///< free_requested whose free_completed right behind is later
  std::set<std::size_t> switches;  ///< mallocs before which expandable segments are switched
};

class Replayer {
 public:
  Replayer(const Recording& recording, const Assumptions& assumptions, bool keep_curve)
      : recording_(recording),
        events_(recording.events),
        device_(recording),
        clock_(recording.streams.size()),
        allocator_(config_of(recording), device_, clock_),
        live_(allocator_, clock_),
        assumptions_(assumptions),
        keep_curve_(keep_curve) {
    out_.start = assumptions.start;
  }

  Result<Replay> run() {
    if (Status restored = restore(); !restored) return tl::unexpected(restored.error());
    for (std::size_t at = 0; at < events_.size();) at = operation(at);
    finish();
    return std::move(out_);
  }

 private:
  // What the program might take is decided by the recording alone.
  static AllocConfig config_of(const Recording& recording) {
    AllocConfig config = recording.config;
    config.memory_fraction = 1;
    for (const RecordedEvent& event : recording.events) {
      if (!is_growth(event.action)) continue;
      config.expandable_segments = event.action == RecordedAction::segment_map;
      break;
    }
    return config;
  }

  Status restore() {
    for (std::size_t stream = 0; stream < recording_.streams.size(); ++stream)
      allocator_.set_stream_handle(StreamId(stream), recording_.streams[stream]);
    for (const SegmentLayout& segment : out_.start.layout) {
      device_.hold(segment);
      for (const BlockLayout& block : segment.blocks)
        if (block.state == BlockState::waiting) clock_.acquire();
    }
    const auto ids = allocator_.restore(out_.start.layout);
    if (!ids) return fail("the state at the start of the window: {}", ids.error().message);
    std::size_t next = 0;
    for (const SegmentLayout& segment : out_.start.layout)
      for (const BlockLayout& block : segment.blocks)
        if (block.state == BlockState::allocated || block.state == BlockState::waiting)
          adopt(segment, block, (*ids)[next++]);
    allocator_.set_sink(&device_);
    allocator_.reset_peak_stats();
    out_.at_start = allocator_.usage();
    out_.peak = out_.at_start;
    recorded_reserved_ = out_.peak_reserved_recorded = out_.at_start.reserved;
    return {};
  }

  void adopt(const SegmentLayout& segment, const BlockLayout& block, BlockId id) {
    LiveBlock live{id, out_.lives.size(), {}};
    if (block.state == BlockState::waiting) live.waits_for = block.uses.front();
    live_.add(block.address, live);
    out_.lives.push_back({block.address, block.requested, block.size, segment.stream, std::nullopt,
                          std::nullopt, block.state == BlockState::waiting});
  }

  template <class... Args>
  void differs(std::size_t event, fmt::format_string<Args...> format, Args&&... args) {
    if (!out_.first_divergence)
      out_.first_divergence = {event,        fmt::format(format, std::forward<Args>(args)...),
                               std::nullopt, 0,
                               std::nullopt, std::nullopt,
                               false};
  }

  // One operation that begins at that event; the event after it.
  std::size_t operation(std::size_t at) {
    const RecordedEvent& event = events_[at];
    if (!is_possible(event)) {
      differs(at, "its address or size is out of range, expected those of a device");
      return at + 1;
    }
    switch (event.action) {
      case RecordedAction::alloc:
      case RecordedAction::oom: return malloc({at, at});
      case RecordedAction::free_requested: return request_free(at);
      case RecordedAction::free_completed: {
        const auto waiting = malloc_waiting_from(at);
        return waiting ? malloc_and_complete(*waiting) : complete_free(at);
      }
      case RecordedAction::other: return at + 1;
      default: return segment_run(at);
    }
  }

  std::size_t segment_run(std::size_t at) {
    std::size_t last = at;
    while (last < events_.size() && is_segment(events_[last])) ++last;
    std::size_t released = at;
    while (released < last && is_release(events_[released].action) &&
           events_[released].in_empty_cache == events_[at].in_empty_cache)
      ++released;
    const bool is_in_malloc =
        last < events_.size() && (events_[last].action == RecordedAction::alloc ||
                                  events_[last].action == RecordedAction::oom);
    const bool is_apart = !is_in_malloc || events_[at].in_empty_cache ||
                          assumptions_.apart.contains(at) ||
                          allocator_.has_cached(events_[last].size, events_[last].stream);
    if (released > at && is_apart) return empty_cache({at, released});
    if (is_in_malloc) return malloc({at, last});
    differs(at, "a segment is made without a malloc behind it");
    for (; at < last; ++at) count_segment(events_[at]);
    return last;
  }

  // The malloc that the completions from `at` on are a part of.
  std::optional<WaitingMalloc> malloc_waiting_from(std::size_t at) {
    if (at < looked_at_ || assumptions_.apart.contains(at)) return std::nullopt;
    std::size_t end = at;
    std::size_t waiting = 0;
    for (; end < events_.size() && events_[end].action == RecordedAction::free_completed; ++end)
      waiting += live_.is_waiting(events_[end].address) ? 1 : 0;
    looked_at_ = end;
    std::size_t last = end;
    while (last < events_.size() && is_segment(events_[last])) ++last;
    if (last == events_.size() || waiting < live_.waiting()) return std::nullopt;
    const RecordedEvent& event = events_[last];
    const bool is_oom = event.action == RecordedAction::oom;
    const bool releases = end < last && is_release(events_[end].action);
    if ((!is_oom && (event.action != RecordedAction::alloc || !releases)) || !is_possible(event) ||
        (end < last && (events_[end].in_empty_cache || assumptions_.apart.contains(end))) ||
        allocator_.has_cached(event.size, event.stream))
      return std::nullopt;
    return WaitingMalloc{at, last};
  }

  std::size_t malloc_and_complete(const WaitingMalloc& waiting) {
    std::size_t end = waiting.first;
    while (events_[end].action == RecordedAction::free_completed) ++end;
    out_.waiting_mallocs.push_back(waiting);
    const bool was_exact = out_.exact();
    std::vector<LiveBlock> blocks;
    for (std::size_t at = waiting.first; at < end; ++at) {
      if (const auto block = live_.take_waiting(events_[at].address))
        blocks.push_back(*block);
      else
        unmatched(at);
    }
    const std::size_t next = malloc({end, waiting.malloc});
    for (const LiveBlock& block : blocks) live_.complete(block);
    if (was_exact && !out_.exact()) out_.first_divergence->completion = waiting.first;
    return next;
  }

  void count_segment(const RecordedEvent& event) {
    ++out_.segments_recorded;
    recorded_reserved_ += is_growth(event.action) ? event.size : -event.size;
    out_.peak_reserved_recorded = std::max(out_.peak_reserved_recorded, recorded_reserved_);
  }

  std::size_t empty_cache(SegmentRun run) {
    for (std::size_t i = run.first; i < run.last; ++i) count_segment(events_[i]);
    device_.begin_release(run.first, run.last);
    allocator_.empty_cache();
    out_.empty_caches.push_back(run.first);
    end_device_operation(run.first);
    return end_operation(run.last - 1);
  }

  void end_device_operation(std::size_t event) {
    const std::string difference = device_.end_operation();
    if (!difference.empty()) differs(event, "{}", difference);
  }

  // run.last is the alloc or oom.
  std::size_t malloc(SegmentRun run) {
    const RecordedEvent& event = events_[run.last];
    const bool is_oom = event.action == RecordedAction::oom;
    for (std::size_t i = run.first; i < run.last; ++i) {
      count_segment(events_[i]);
      if (is_growth(events_[i].action)) switch_expandable(events_[i].action);
    }
    if (assumptions_.switches.contains(run.last))
      allocator_.set_expandable_segments(!allocator_.config().expandable_segments);
    const Rounding rounding(allocator_.config());
    const PoolKind kind =
        pool_kind(rounding.block_size(std::clamp<Bytes>(event.size, 1, kMaxRequest)));
    device_.begin_malloc(run.first, run.last, kind, is_oom);
    const bool was_exact = out_.exact();
    const Allocation got = allocator_.malloc(std::max<Bytes>(event.size, 0), event.stream);
    end_device_operation(run.last);
    if (is_oom)
      out_of_memory(run.last, got);
    else
      allocated(run.last, got);
    if (was_exact && !out_.exact()) explain(run, got, rounding);
    return end_operation(run.last);
  }

  // What was left of the free block that served a malloc.
  void explain(SegmentRun run, const Allocation& got, const Rounding& rounding) {
    out_.first_divergence->in_malloc = true;
    if (is_release(events_[run.first].action)) out_.first_divergence->release = run.first;
    if (!got.ok() || events_[run.last].action == RecordedAction::oom) return;
    const Bytes needed = rounding.block_size(allocator_.requested_size(got.block));
    out_.first_divergence->found_at = got.address;
    out_.first_divergence->spare = allocator_.block_size(got.block) - needed;
    const Address end = got.address + allocator_.block_size(got.block);
    for (const SegmentLayout& segment : allocator_.layout())
      for (const BlockLayout& block : segment.blocks)
        if (block.address == end && block.state == BlockState::free &&
            segment.address <= got.address && end < segment.address + segment.size)
          out_.first_divergence->spare += block.size;
  }

  // Programs may switch expandable segments on and off.
  void switch_expandable(RecordedAction action) {
    const bool on = action == RecordedAction::segment_map;
    if (allocator_.config().expandable_segments != on) allocator_.set_expandable_segments(on);
  }

  void out_of_memory(std::size_t at, const Allocation& got) {
    const Bytes available = std::clamp<Bytes>(events_[at].address, 0, FreeIndex::kSizeLimit);
    out_.capacity = std::max(out_.capacity.value_or(0), recorded_reserved_ + available);
    if (!got.ok()) return;
    differs(at, "the replay finds memory for {} bytes, recorded is an oom", events_[at].size);
    allocator_.free(got.block);
  }

  void allocated(std::size_t at, const Allocation& got) {
    const RecordedEvent& event = events_[at];
    ++out_.allocs;
    if (!got.ok()) {
      differs(at, "the replay finds no memory for {} bytes, recorded is {:#x}", event.size,
              event.address);
      return;
    }
    if (got.address == event.address)
      ++out_.exact_addresses;
    else
      differs(at, "the replay places {} bytes at {:#x}, recorded is {:#x}", event.size, got.address,
              event.address);
    live_.add(event.address, {got.block, out_.lives.size(), {}});
    const Bytes size = allocator_.block_size(got.block);
    out_.lives.push_back({got.address, event.size, size, event.stream, at, std::nullopt});
    digest_alloc_.add(std::array{static_cast<std::int64_t>(at), got.address, size}, ':', '\n');
  }

  std::size_t request_free(std::size_t at) {
    const RecordedEvent& event = events_[at];
    const bool at_once =
        at + 1 < events_.size() && events_[at + 1].action == RecordedAction::free_completed &&
        events_[at + 1].address == event.address && !assumptions_.deferred.contains(at);
    const auto freed = at_once ? live_.free(event.address) : live_.request_free(event.address);
    if (freed)
      out_.lives[freed->life].freed = at;
    else
      unmatched(at);
    if (!at_once) return end_operation(at);
    Usage between = allocator_.usage();
    if (freed) {
      between.active += out_.lives[freed->life].size;
      between.requested += out_.lives[freed->life].requested;
    }
    note(at, between);
    return end_operation(at + 1);
  }

  std::size_t complete_free(std::size_t at) {
    if (!live_.complete_free(events_[at].address)) unmatched(at);
    return end_operation(at);
  }

  void unmatched(std::size_t at) {
    ++out_.unmatched_frees;
    differs(at, "the replay has no block to free at {:#x}", events_[at].address);
  }

  std::size_t end_operation(std::size_t last) {
    note(last, allocator_.usage());
    return last + 1;
  }

  void note(std::size_t event, const Usage& usage) {
    if (keep_curve_) out_.curve.push_back({event, usage});
    digest_curve_.add(
        std::array{static_cast<std::int64_t>(event), usage.reserved, usage.active, usage.allocated},
        ':', '\n');
    if (usage.allocated > peak_allocated()) out_.peak_event = event;
    const Bytes error = std::abs(usage.reserved - recorded_reserved_);
    out_.largest_reserved_error = std::max(out_.largest_reserved_error, error);
    if (error != 0)
      differs(event, "the replay has reserved {} bytes, recorded are {}", usage.reserved,
              recorded_reserved_);
    for (Bytes Usage::*bytes : {&Usage::requested, &Usage::allocated, &Usage::active,
                                &Usage::reserved, &Usage::inactive_split})
      out_.peak.*bytes = std::max(out_.peak.*bytes, usage.*bytes);
  }

  Bytes peak_allocated() const { return out_.peak.allocated; }

  // --- the end ---

  using BlockKey = std::tuple<Address, Bytes, BlockState, Bytes>;

  static std::vector<BlockKey> keys(const Layout& layout) {
    std::vector<BlockKey> out;
    for (const SegmentLayout& segment : layout)
      for (const BlockLayout& block : segment.blocks)
        if (block.state != BlockState::unmapped)
          out.emplace_back(block.address, block.size, block.state,
                           block.state == BlockState::free ? 0 : block.requested);
    std::sort(out.begin(), out.end());
    return out;
  }

  void compare_blocks() {
    const std::vector<BlockKey> recorded = keys(recording_.at_end);
    const std::vector<BlockKey> replayed = keys(allocator_.layout());
    std::vector<BlockKey> different;
    std::set_symmetric_difference(recorded.begin(), recorded.end(), replayed.begin(),
                                  replayed.end(), std::back_inserter(different));
    out_.blocks_recorded = recorded.size();
    out_.blocks_different = different.size();
    if (!different.empty())
      differs(events_.size(), "the state at the end differs, first in the block at {:#x}",
              std::get<0>(different.front()));
  }

  // What could not be undone is the reason for every other difference.
  void take_contradiction() {
    if (const auto& found = out_.start.contradiction)
      out_.first_divergence = {found->event, found->reason, std::nullopt, 0,
                               std::nullopt, std::nullopt,  false};
  }

  void finish() {
    compare_blocks();
    take_contradiction();
    out_.at_end = allocator_.usage();
    out_.segments_replayed = device_.replayed();
    out_.segments_exact = device_.exact();
    const Stats stats = allocator_.stats();
    out_.retries = stats.num_alloc_retries;
    out_.ooms = stats.num_ooms;
    out_.digest_alloc = digest_alloc_.finish();
    out_.digest_curve = digest_curve_.finish();
  }

  const Recording& recording_;
  const std::vector<RecordedEvent>& events_;
  RecordedDevice device_;
  RecordedClock clock_;
  CachingAllocator allocator_;
  LiveBlocks live_;
  const Assumptions& assumptions_;
  const bool keep_curve_;
  Replay out_;
  NumberDigest digest_alloc_;
  NumberDigest digest_curve_;
  Bytes recorded_reserved_ = 0;
  std::size_t looked_at_ = 0;  ///< of a run of completions: the event after it
};

}  // namespace

namespace {

// Enlarges the ambiguous block in front of free memory that should not have served the malloc.
bool enlarge(StartState& start, const Divergence& divergence) {
  if (!divergence.found_at) return false;
  const Bytes more = divergence.spare + kMinBlockSize;
  for (AmbiguousBlock& ambiguous : start.ambiguous) {
    if (ambiguous.upper_slack < more) continue;
    for (const SegmentLayout& segment : start.layout)
      for (const BlockLayout& block : segment.blocks)
        if (block.address == ambiguous.address &&
            block.address + block.size == *divergence.found_at) {
          start.give_slack(ambiguous, more);
          return true;
        }
  }
  return false;
}

// The free_requested whose completion right behind it may have come in the malloc at that event.
std::optional<std::size_t> deferred_before(const std::vector<RecordedEvent>& events,
                                           std::size_t malloc) {
  std::size_t at = malloc;
  while (at > 0 && is_segment(events[at - 1])) --at;
  while (at > 0 && events[at - 1].action == RecordedAction::free_completed) --at;
  if (at == 0 || at == malloc || events[at].action != RecordedAction::free_completed ||
      events[at - 1].action != RecordedAction::free_requested ||
      events[at - 1].address != events[at].address)
    return std::nullopt;
  return at - 1;
}

// What else the recording may mean, likely things first.
std::vector<Assumptions> alternatives(const Assumptions& from, const Divergence& divergence,
                                      const std::vector<RecordedEvent>& events) {
  std::vector<Assumptions> out;
  Assumptions enlarged = from;
  if (enlarge(enlarged.start, divergence)) out.push_back(std::move(enlarged));
  if (divergence.release) {
    out.push_back(from);
    out.back().apart.insert(*divergence.release);
  }
  const auto deferred =
      divergence.event < events.size() ? deferred_before(events, divergence.event) : std::nullopt;
  if (deferred && !from.deferred.contains(*deferred)) {
    out.push_back(from);
    out.back().deferred.insert(*deferred);
  }
  if (divergence.completion) {
    out.push_back(from);
    out.back().apart.insert(*divergence.completion);
  }
  if (divergence.in_malloc && !from.switches.contains(divergence.event)) {
    out.push_back(from);
    out.back().switches.insert(divergence.event);
  }
  return out;
}

}  // namespace

Result<Replay> replay(const Recording& recording, bool keep_curve) {
  constexpr int kMostReplays = 100;
  Result<StartState> start = rewind(recording);
  if (!start) return tl::unexpected(start.error());
  Assumptions assumptions{std::move(*start), {}, {}, {}};
  Result<Replay> best = Replayer(recording, assumptions, keep_curve).run();
  int replays = 1;
  const bool is_consistent = !assumptions.start.contradiction;
  for (bool is_better = is_consistent; best && !best->exact() && is_better;) {
    is_better = false;
    for (Assumptions& other :
         alternatives(assumptions, *best->first_divergence, recording.events)) {
      if (++replays > kMostReplays) break;
      Result<Replay> next = Replayer(recording, other, keep_curve).run();
      is_better =
          next && (next->exact() || next->first_divergence->event > best->first_divergence->event);
      if (!is_better) continue;
      assumptions = std::move(other);
      best = std::move(next);
      break;
    }
  }
  return best;
}

}  // namespace foregather::alloc
