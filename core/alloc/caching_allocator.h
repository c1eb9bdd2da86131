// A replica of PyTorch's native CUDA caching allocator: same placement, same driver calls, same
// statistics, decision by decision, over a device memory and an event clock that the caller gives.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/alloc/block_table.h"
#include "core/alloc/config.h"
#include "core/alloc/device_memory.h"
#include "core/alloc/driver_calls.h"
#include "core/alloc/event_clock.h"
#include "core/alloc/event_queues.h"
#include "core/alloc/ids.h"
#include "core/alloc/layout.h"
#include "core/alloc/pool.h"
#include "core/alloc/rounding.h"
#include "core/alloc/sink.h"
#include "core/alloc/stats.h"
#include "core/alloc/stats_recorder.h"
#include "core/alloc/stream_uses.h"
#include "core/base/result.h"

namespace foregather::alloc {

enum class AllocStatus : std::uint8_t {
  ok,
  empty,          ///< 0 bytes asked for: a null address, no block, nothing counted
  out_of_memory,  ///< counted in num_ooms; the allocator stays usable
  too_big,        ///< more than 1 EiB asked for: refused before anything else
};

/// What malloc returns. `block` and `address` mean something only if `status` is ok.
struct Allocation {
  AllocStatus status = AllocStatus::ok;
  /// The driver or the event clock was called: see CachingAllocator::last_calls.
  bool called_driver = false;
  BlockId block{};
  Address address = 0;
  Bytes cut_from = 0;  ///< size of the idle block that it is all or the front of

  bool ok() const { return status == AllocStatus::ok; }
};

/// The allocator of one device. One thread.
///
/// Algorithm: blocks live in a dense table and know their neighbours in the segment. Free blocks of
/// a (pool, stream) are in a FreeIndex ordered by (size, address); a malloc takes the first that is
/// large enough and splits it, a free merges with its neighbours. Everything else (segments,
/// retries, garbage collection, expandable segments) happens only on a miss.
///
/// Cost: on a hit a few tens of nanoseconds, without heap allocation or virtual call once the
/// tables have grown, as long as no freed block waits for an event.
///
/// Assumes that requests come in host order, that memory and clock outlive it, and that nobody else
/// uses that memory object. The result depends on nothing else.
class CachingAllocator {
 public:
  /// Memory and clock are borrowed. The configuration must be one that parse_alloc_conf accepts.
  CachingAllocator(const AllocConfig& config, DeviceMemory& memory, EventClock& clock);
  /// A copy of the state of `other`, over a memory and a clock that are copies of its. Cost: a few
  /// flat arrays. The sink is not copied.
  CachingAllocator(const CachingAllocator& other, DeviceMemory& memory, EventClock& clock);
  CachingAllocator(CachingAllocator&&) noexcept = default;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // --- what a program does -------------------------------------------------------------------

  /// A block of at least `requested` bytes (>= 0) for work on `stream`.
  Allocation malloc(Bytes requested, StreamId stream);
  /// The block is also used by work on `stream`: its free will wait for that. No effect if it is
  /// the block's own stream. The block must be allocated.
  void record_stream(BlockId block, StreamId stream);
  /// Gives a block back. With recorded streams it stays active until their events have happened
  /// and a later malloc has seen that. The block must be allocated. Calls: last_calls().
  void free(BlockId block);
  /// torch.cuda.empty_cache(): waits for all events, then gives all releasable memory back.
  DriverCalls empty_cache();

  /// Gives back the blocks whose events have happened, as every malloc does first. Only a replay,
  /// which knows when that was, needs it apart.
  void process_events();
  /// A malloc of that size would now be served from the cache.
  bool has_cached(Bytes requested, StreamId stream) const;

  /// Driver calls of the last malloc, free or empty_cache. The reference stays valid.
  const DriverCalls& last_calls() const { return calls_; }

  // --- private pools: CUDA graphs and user memory pools ----------------------------------------

  struct PoolOptions {
    bool no_split = false;    ///< its blocks are never split
    bool use_on_oom = false;  ///< its cached blocks may serve anyone before memory is released
  };
  /// A new pool with use count 1.
  PoolId create_pool(PoolOptions options);
  PoolId create_pool() { return create_pool(PoolOptions{}); }
  /// From now on mallocs on `stream` (absent: on any) go to `pool`. Routes nest; the newest match
  /// wins. While any route is open, events are neither recorded nor polled, and a malloc that finds
  /// no memory does not release what is cached.
  void begin_allocate_to_pool(PoolId pool, StreamId stream = {});
  /// Closes the oldest route to `pool`.
  void end_allocate_to_pool(PoolId pool);
  /// The pool has one more, or one fewer user. Without users its cached memory is released with
  /// that of the default pool.
  void retain_pool(PoolId pool);
  void release_pool(PoolId pool);

  // --- settings ----------------------------------------------------------------------------

  /// Order key of a stream: the value of its handle. Default: its row. Matters for the order in
  /// which cached segments of several streams are released. Set it before the stream's first use.
  void set_stream_handle(StreamId stream, std::uint64_t handle);
  /// Switches expandable segments for later mallocs, as PyTorch allows in the middle of a run.
  void set_expandable_segments(bool on);
  /// torch.cuda.set_per_process_memory_fraction: in [0, 1]; 1 is no limit.
  void set_memory_fraction(double fraction);
  /// Borrowed; null: none.
  void set_sink(AllocatorSink* sink) { sink_ = sink; }
  /// Of the statistics only usage() and peak() mean something from then on, and of these not
  /// inactive_split. Quicker. Call it before the first malloc.
  void keep_usage_only();

  // --- state ---------------------------------------------------------------------------------

  /// Bytes now.
  Usage usage() const { return recorder_.usage(); }
  /// Peaks of the same since the last reset_peak_stats.
  const Usage& peak() const { return recorder_.peak(); }
  /// All statistics, put together from what is kept.
  Stats stats() const { return recorder_.stats(); }
  /// Peaks become the present values.
  void reset_peak_stats() { recorder_.reset_peak(); }
  /// The largest cached block of any stream and pool: 0 if none. What a request can find without
  /// the driver.
  Bytes largest_free_block() const;
  /// Freed blocks wait for events: GPU time matters to the next malloc.
  bool has_pending() const { return !events_.empty() || !deferred_.empty(); }

  Address address(BlockId block) const { return blocks_[block.row()].address; }
  /// Its size with rounding and slack.
  Bytes block_size(BlockId block) const { return blocks_[block.row()].size; }
  Bytes requested_size(BlockId block) const { return blocks_[block.row()].requested; }

  const AllocConfig& config() const { return config_; }
  /// All segments and their blocks, by address. Slow.
  Layout layout() const;
  /// Takes over a state, e.g. that at the start of a recorded window. The allocator must be fresh
  /// and `memory` must already hold these segments; BlockLayout::id is ignored. Returns the ids of
  /// allocated and waiting blocks in layout order; statistics then are as if they had just been
  /// allocated. Errors: blocks that do not fill their segment, sizes that are no multiple of 512, a
  /// private pool, neighbouring free blocks.
  Result<std::vector<BlockId>> restore(const Layout& layout);

 private:
  CachingAllocator(const CachingAllocator&) = default;

  /// How much a malloc and a free need to test.
  enum class Path : std::uint8_t {
    general,
    /// No rule can reject or move what a best-fit search finds, no route is open, no freed block
    /// waits and calls_ is zero: a malloc is a lookup.
    plain,
    lean,  ///< and only usage is kept
  };

  /// What a malloc looks for.
  struct Request {
    Bytes requested;
    Bytes size;
    std::uint32_t stream;
    std::uint32_t pool;
    std::uint32_t list;
    bool expandable;
  };
  /// An expandable segment: a reserved range of addresses.
  struct Arena {
    Address base = 0;
    Bytes size = 0;
    Bytes granule = 0;
  };
  struct PrivatePool {
    PoolOptions options;
    int users = 1;
  };
  struct Route {
    PoolId pool;
    StreamId stream;  ///< absent: any
  };

  // caching_allocator.cpp; below: the lean path, and what all of them share
  Allocation malloc_counted(Bytes requested, StreamId stream);
  void free_counted(BlockId block);
  void begin_operation();
  std::uint32_t routed_pool(std::uint32_t pool, StreamId stream) const;
  std::uint32_t list_of(std::uint32_t pool, std::uint32_t stream) {
    const std::vector<std::uint32_t>& lists = pools_[pool].lists;
    if (stream < lists.size() && lists[stream] != kNone) [[likely]]
      return lists[stream];
    return new_list(pool, stream);
  }
  std::uint32_t new_list(std::uint32_t pool, std::uint32_t stream);
  Allocation malloc_unusual(Bytes requested, StreamId stream);
  bool search(const Request& request, FreeIndex::Position& at);
  bool find_cached(const Request& request, const FreeIndex& free, FreeIndex::Position& at) const;
  // Of a path: what follows from it is not tested.
  template <Path kPath>
  [[gnu::always_inline]] Allocation malloc_plainly(Bytes requested, StreamId stream);
  template <Path kPath>
  [[gnu::always_inline]] Bytes least_remainder(const Request& request) const;
  template <Path kPath>
  [[gnu::always_inline]] Allocation take_cached(const Request& request,
                                                const FreeIndex::Position& at);
  Allocation take_found(const Request& request, const FreeIndex::Position& at);
  Allocation take_new(const Request& request, BlockIndex found);
  template <Path kPath>
  [[gnu::always_inline]] Allocation hand_out(const Request& request, BlockIndex index,
                                             Bytes cut_from, StatsRecorder::SplitChange split);
  BlockIndex split_front(BlockIndex from, Bytes size);
  template <Path kPath>
  [[gnu::always_inline]] StatsRecorder::SplitChange make_idle(BlockIndex index);
  void insert_free(BlockIndex index);
  void merge(BlockIndex into, BlockIndex neighbour);
  void update_path();

  // deferred.cpp: frees that wait for events
  void defer_free(BlockIndex index);
  void record_events(BlockIndex index);
  void flush_deferred();
  void poll_events();
  void synchronize_events();
  void event_happened(std::uint32_t stream);
  void complete_free(BlockIndex index);

  // growth.cpp: a miss
  Allocation malloc_missed(Request request);
  BlockIndex allocate_segment(const Request& request, bool retry);

  // release.cpp
  std::vector<BlockIndex> free_blocks(const Pool& pool) const;
  bool release_oversize(const Request& request);
  void release_cached();
  void release_pool_blocks(std::uint32_t pool);
  void release_segment(BlockIndex index);
  void collect_garbage();

  // expandable.cpp
  BlockIndex allocate_expandable(const Request& request);
  BlockIndex find_expandable(const Request& request);
  BlockIndex new_arena(const Request& request);
  bool map_block(BlockIndex index, Bytes size);
  void unmap_block(BlockIndex index);
  BlockIndex add_part(const Block& of, Address address, Bytes size, BlockState state,
                      BlockIndex previous, BlockIndex next);
  void release_arena(BlockIndex index);

  void restore_segment(const SegmentLayout& segment, std::vector<BlockId>& ids);  // restore.cpp
  void report(SegmentAction action, const Block& block, Address address, Bytes size);

  AllocConfig config_;
  Rounding rounding_;
  Bytes max_split_;  ///< greatest Bytes if unlimited
  std::optional<Bytes> limit_;
  bool counts_searches_ = false;
  Path path_ = Path::general;  ///< of the next malloc or free
  bool calls_dirty_ = false;

  BlockTable blocks_;
  std::vector<BlockList> lists_;
  std::vector<Pool> pools_;  ///< 2k + kind; k = 0: the default pool, else private pool k − 1
  StatsRecorder recorder_;
  StreamUses uses_;
  EventQueues events_;
  std::vector<BlockIndex> deferred_;  ///< freed in a capture: events not yet recorded
  std::vector<Route> routes_;
  std::vector<PrivatePool> private_pools_;
  std::vector<Arena> arenas_;
  std::vector<std::uint32_t> spare_arenas_;
  std::vector<std::uint64_t> stream_handles_;  ///< by stream; missing: its row

  DeviceMemory* memory_;
  EventClock* clock_;
  AllocatorSink* sink_ = nullptr;
  DriverCalls calls_;
};

// What every malloc and free does, and all of them on the lean path.

template <CachingAllocator::Path kPath>
inline Allocation CachingAllocator::malloc_plainly(Bytes requested, StreamId stream) {
  const Bytes size = rounding_.block_size(requested);
  const auto pool = static_cast<std::uint32_t>(pool_kind(size));
  const Request request{requested, size, stream.row(), pool, list_of(pool, stream.row()), false};
  FreeIndex::Position at;
  if (!lists_[request.list].free.lower_bound(size, at)) [[unlikely]]
    return malloc_missed(request);
  return take_cached<kPath>(request, at);
}

inline Allocation CachingAllocator::malloc(Bytes requested, StreamId stream) {
  assert(requested >= 0 && stream);
  if (path_ != Path::lean || requested == 0 || requested > kMaxRequest) [[unlikely]]
    return malloc_counted(requested, stream);
  return malloc_plainly<Path::lean>(requested, stream);
}

inline void CachingAllocator::free(BlockId id) {
  const Block& block = blocks_[id.row()];
  if (path_ != Path::lean || block.uses != kNone) [[unlikely]]
    return free_counted(id);
  assert(id && block.state == BlockState::allocated && block.size > 0);
  recorder_.gave(block.size, block.requested);
  make_idle<Path::lean>(id.row());
}

// What must be left for a block to be split.
template <CachingAllocator::Path kPath>
inline Bytes CachingAllocator::least_remainder(const Request& request) const {
  constexpr Bytes kNever = kMaxRequest;
  if constexpr (kPath != Path::general) return request.pool == 0 ? kMinBlockSize : kSmallSize + 1;
  if (request.pool >= 2) [[unlikely]] {
    const PoolId owner = pools_[request.pool].owner;
    if (private_pools_[owner.row()].options.no_split) return kNever;
  }
  if (request.pool % 2 == 0 || request.expandable) return kMinBlockSize;
  return request.size < max_split_ ? kSmallSize + 1 : kNever;
}

template <CachingAllocator::Path kPath>
inline Allocation CachingAllocator::take_cached(const Request& request,
                                                const FreeIndex::Position& at) {
  FreeIndex& free = lists_[request.list].free;
  const BlockIndex found = free.block(at);
  const Block& block = blocks_[found];
  const Bytes whole = block.size;
  const bool expandable = kPath == Path::general && block.expandable();
  const bool counted = block.split() && !expandable;
  const Bytes remaining = whole - request.size;
  if (remaining < least_remainder<kPath>(request)) {
    free.erase(at);
    return hand_out<kPath>(
        request, found, whole,
        counted ? StatsRecorder::SplitChange{-1, -whole} : StatsRecorder::SplitChange{});
  }
  free.move(at, remaining, block.address + request.size);
  if (kPath == Path::general && counts_searches_)
    blocks_[found].age_base = pools_[request.pool].searches;
  StatsRecorder::SplitChange split{1, remaining};
  if (counted)
    split = {0, -request.size};
  else if (expandable)
    split = {};
  return hand_out<kPath>(request, split_front(found, request.size), whole, split);
}

// Makes the front of a block a block of its own; what remains keeps the number.
[[gnu::always_inline]] inline BlockIndex CachingAllocator::split_front(BlockIndex from,
                                                                       Bytes size) {
  const BlockIndex index = blocks_.acquire();
  Block& front = blocks_[index];
  Block& rest = blocks_[from];
  front.address = rest.address;
  front.size = size;
  front.previous = rest.previous;
  front.next = from;
  front.list = rest.list;
  front.kind = rest.kind;
  front.arena = rest.arena;
  blocks_[rest.previous].next = index;
  rest.previous = index;
  rest.address += size;
  rest.size -= size;
  return index;
}

template <CachingAllocator::Path kPath>
inline Allocation CachingAllocator::hand_out(const Request& request, BlockIndex index,
                                             Bytes cut_from, StatsRecorder::SplitChange split) {
  Block& block = blocks_[index];
  block.state = BlockState::allocated;
  block.requested = request.requested;
  if constexpr (kPath == Path::lean)
    recorder_.took(block.size, request.requested);
  else
    recorder_.allocated(static_cast<PoolKind>(request.pool % 2), block.size, request.requested,
                        split);
  if (kPath == Path::general && block.size >= max_split_) recorder_.oversize_allocation(+1);
  return {AllocStatus::ok, kPath == Path::general && calls_dirty_, BlockId(index), block.address,
          cut_from};
}

// Merges the block with its free neighbours and lists the result. A neighbour that is listed
// already keeps its number and grows.
template <CachingAllocator::Path kPath>
inline StatsRecorder::SplitChange CachingAllocator::make_idle(BlockIndex index) {
  Block& block = blocks_[index];
  FreeIndex& free = lists_[block.list].free;
  const BlockIndex previous = block.previous;
  const BlockIndex next = block.next;
  Block& before = blocks_[previous];
  Block& after = blocks_[next];
  const bool join_before = before.state == BlockState::free;
  const bool join_after = after.state == BlockState::free;
  StatsRecorder::SplitChange split;
  BlockIndex whole = index;
  if (!join_before && !join_after) {
    block.state = BlockState::free;
    free.insert(block.size, block.address, index);
  } else {
    Address address = block.address;
    Bytes size = block.size;
    before.next = next;
    after.previous = previous;
    if (join_after) {
      split = {-1, -after.size};
      size += after.size;
      whole = next;
    }
    if (join_before) {
      split.blocks -= 1;
      split.bytes -= before.size;
      size += before.size;
      address = before.address;
      whole = previous;
      if (join_after) {
        before.next = after.next;
        blocks_[after.next].previous = previous;
        free.erase(after.size, after.address);
        blocks_.release(next);
      }
    }
    Block& grown = blocks_[whole];
    free.move(grown.size, grown.address, size, address);
    grown.address = address;
    grown.size = size;
    blocks_.release(index);
  }
  Block& merged = blocks_[whole];
  if (kPath == Path::general && counts_searches_)
    merged.age_base = pools_[lists_[merged.list].pool].searches;
  if (kPath == Path::general && merged.expandable()) return {};
  if (merged.split()) {
    split.blocks += 1;
    split.bytes += merged.size;
  }
  return split;
}

}  // namespace foregather::alloc
