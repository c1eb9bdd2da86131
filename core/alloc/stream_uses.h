// The other streams that blocks were used on: short lists in one array.
#pragma once

#include <cstdint>
#include <vector>

#include "core/alloc/block_table.h"

namespace foregather::alloc {

/// Singly linked lists of streams; a list is the index of its first node, or kNone. Lists are
/// almost always empty and rarely longer than two.
class StreamUses {
 public:
  struct Use {
    std::uint32_t stream = 0;
    std::uint32_t next = kNone;
    bool in_capture = false;  ///< recorded while a route to a private pool was open
  };

  /// Adds `stream` at the end of the list if it is not there yet.
  void add(std::uint32_t& list, std::uint32_t stream, bool in_capture);
  /// Removes the uses recorded in a capture: the graph orders them by itself.
  void drop_captured(std::uint32_t& list);
  /// Makes the list empty.
  void clear(std::uint32_t& list);

  const Use& operator[](std::uint32_t node) const { return nodes_[node]; }

 private:
  void release(std::uint32_t node) { spare_.push_back(node); }

  std::vector<Use> nodes_;
  std::vector<std::uint32_t> spare_;
};

}  // namespace foregather::alloc
