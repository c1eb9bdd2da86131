// The blocks of a replay, by the addresses that the recording knows them under.
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>

#include "core/alloc/caching_allocator.h"
#include "core/alloc/recorded_device.h"

namespace foregather::alloc {

/// A block that has not been given back.
struct LiveBlock {
  BlockId block;
  std::size_t life = 0;  ///< the caller's number
  StreamId waits_for;    ///< of the clock; absent: it is not waiting
};

/// Frees blocks of an allocator the way they were recorded: at once, or first requested and later
/// completed. Borrows both.
class LiveBlocks {
 public:
  LiveBlocks(CachingAllocator& allocator, RecordedClock& clock)
      : allocator_(allocator), clock_(clock) {}

  void add(Address recorded, const LiveBlock& block);
  /// Nothing: the replay has no such block.
  std::optional<LiveBlock> find(Address recorded) const;
  std::optional<LiveBlock> free(Address recorded);
  /// The free waits for complete_free.
  std::optional<LiveBlock> request_free(Address recorded);
  std::optional<LiveBlock> complete_free(Address recorded);
  /// complete_free() in two parts: the block is no longer known, and then no longer in use.
  std::optional<LiveBlock> take_waiting(Address recorded);
  void complete(const LiveBlock& block);

  bool is_waiting(Address recorded) const;
  std::size_t waiting() const { return waiting_; }  ///< blocks

  const std::unordered_map<Address, LiveBlock>& all() const { return blocks_; }

 private:
  CachingAllocator& allocator_;
  RecordedClock& clock_;
  std::unordered_map<Address, LiveBlock> blocks_;
  std::size_t waiting_ = 0;
};

}  // namespace foregather::alloc
