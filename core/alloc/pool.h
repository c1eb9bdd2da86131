// Pools, and the lists of idle blocks that they keep for each stream.
#pragma once

#include <cstdint>
#include <vector>

#include "core/alloc/block_table.h"
#include "core/alloc/free_index.h"
#include "core/alloc/ids.h"

namespace foregather::alloc {

/// The unmapped blocks of one pool and stream, in order of address. Few: one for each hole of an
/// expandable segment and one for its end.
class UnmappedList {
 public:
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  BlockIndex operator[](std::size_t position) const { return entries_[position].block; }
  void insert(Address address, BlockIndex block);
  /// The entry must be there.
  void erase(Address address);

 private:
  struct Entry {
    Address address;
    BlockIndex block;
  };
  std::vector<Entry>::iterator at_or_after(Address address);

  std::vector<Entry> entries_;
};

/// The idle blocks of one pool and stream. A block stays in the list of its segment for ever.
struct BlockList {
  FreeIndex free;
  UnmappedList unmapped;
  std::uint32_t stream = 0;
  std::uint32_t pool = 0;
  PoolKind kind = PoolKind::small;
};

/// Half of the default pool or of a private pool.
struct Pool {
  PoolKind kind = PoolKind::small;
  PoolId owner;                      ///< absent: the default pool
  std::uint64_t searches = 0;        ///< best-fit searches, counted only for garbage collection
  std::vector<std::uint32_t> lists;  ///< by stream: a BlockList, or kNone
};

}  // namespace foregather::alloc
