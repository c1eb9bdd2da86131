// The caching allocator once more, slow and plain: heap objects, ordered sets, one rule after the
// other. The fast one must agree with it in every address, statistic and segment event.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "core/alloc/config.h"
#include "core/alloc/device_memory.h"
#include "core/alloc/event_clock.h"
#include "core/alloc/sink.h"
#include "core/alloc/stats.h"

namespace foregather::alloc::test {

/// Counts a change of `by`, which may be negative.
void add(Stat& stat, std::int64_t by);

class ReferenceAllocator {
 public:
  struct Pool;
  struct Arena {
    Address base;
    Bytes size, granule;
  };
  struct Block {
    Address address = 0;
    Bytes size = 0;
    Bytes requested = 0;
    std::size_t stream = 0;
    Pool* pool = nullptr;
    Block* previous = nullptr;
    Block* next = nullptr;
    bool allocated = false;
    bool mapped = true;
    int events = 0;
    std::uint64_t searches_then = 0;
    std::set<std::size_t> uses;
    std::set<std::size_t> captured_uses;
    std::shared_ptr<Arena> arena;

    bool split() const { return previous != nullptr || next != nullptr; }
    bool idle() const { return !allocated && events == 0 && uses.empty(); }
  };
  /// (handle of the stream, size, address): one order over all streams.
  struct BySize {
    const ReferenceAllocator* owner;
    bool operator()(const Block* a, const Block* b) const;
  };
  struct ByAddress {
    const ReferenceAllocator* owner;
    bool operator()(const Block* a, const Block* b) const;
  };
  struct Pool {
    bool small;
    std::optional<std::size_t> owner;
    std::uint64_t searches = 0;
    std::set<Block*, BySize> free;
    std::set<Block*, ByAddress> unmapped;
  };
  struct PrivatePool {
    std::unique_ptr<Pool> small, large;
    bool no_split, use_on_oom;
    int users = 1;
  };

  ReferenceAllocator(const AllocConfig& config, DeviceMemory& memory, EventClock& clock);
  ~ReferenceAllocator();

  /// Null when out of memory.
  Block* malloc(Bytes requested, std::size_t stream);
  void record_stream(Block* block, std::size_t stream);
  void free(Block* block);
  void empty_cache() { release_cached(); }
  std::size_t create_pool(bool no_split, bool use_on_oom);
  void begin_route(std::size_t pool, std::optional<std::size_t> stream);
  void end_route(std::size_t pool);
  void release_pool(std::size_t pool) { --private_pools_[pool].users; }
  void reset_peak();
  Bytes largest_free_block() const;

  AllocConfig config;
  std::vector<std::uint64_t> handles;  ///< of streams
  Stats stats;
  std::vector<SegmentEvent> segments;

 private:
  struct Request {
    Bytes requested, size, segment;
    std::size_t stream;
    Pool* pool;
    bool expandable;
  };
  Bytes max_split() const;
  std::optional<Bytes> limit() const;
  bool collecting() const;
  Pool* pool_for(Bytes size, std::size_t stream);
  Block* search(const Request& request);
  Block* grow(const Request& request, bool retry);
  Block* grow_expandable(const Request& request);
  bool map(Block* block, Bytes size);
  void unmap(Block* block);
  bool release_oversize(const Request& request);
  void release_cached();
  void release_blocks(Pool& pool);
  void release(Block* block);
  void collect_garbage();
  void complete_free(Block* block);
  Bytes try_merge(Block* into, Block* from);
  void insert(Block* block);
  void record_events(Block* block);
  void flush_deferred();
  void process_events(bool wait);
  Block* new_block(const Block& like, Address address, Bytes size, Block* previous, Block* next);
  void remove(Block* block);
  void change(Stat PoolStats::*stat, const Pool& pool, std::int64_t by);
  void event(SegmentAction action, const Block& block, Address address, Bytes size);

  DeviceMemory& memory_;
  EventClock& clock_;
  Pool small_, large_;
  std::vector<PrivatePool> private_pools_;
  std::vector<std::pair<std::size_t, std::optional<std::size_t>>> routes_;
  std::map<std::size_t, std::vector<std::pair<EventToken, Block*>>> events_;
  std::vector<Block*> deferred_;
  std::set<Block*> all_;
};

}  // namespace foregather::alloc::test
