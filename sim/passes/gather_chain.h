// How a unit's parameters are unsharded: what fills an all-gather, the all-gather, what copies its
// output out. Found by roles and accesses.
#pragma once

#include <optional>
#include <vector>

#include "sim/passes/host_actions.h"

namespace foregather::sim {

/// Bytes of a parameter shard that a gather sends.
struct ShardPart {
  StorageId storage;
  Bytes offset = 0;  ///< from the storage's start
  Bytes bytes = 0;
  friend bool operator==(const ShardPart&, const ShardPart&) = default;
};

/// One all-gather in one section. Rows and indices are those of the HostActions it was found in.
struct GatherChain {
  OpId op;
  ActionIndex at = 0;                ///< its launch
  std::vector<ActionIndex> inputs;   ///< launches of casts and copies that fill its input
  std::vector<ActionIndex> outputs;  ///< launches of copies of its output
  std::vector<ShardPart> shards;     ///< in the order in which they are read
  std::vector<std::size_t> buffers;  ///< bindings that only the chain uses: inputs, its output
  std::vector<std::size_t> full;     ///< bindings of the unsharded parameters
  /// The unbroken run of actions of one thread that issues the gather: from the host's delay before
  /// its first allocation to its event and the frees of its inputs.
  ActionIndex block_begin = 0, block_end = 0;  ///< end: one past the last
};

/// The gathers of a section in host order. Without those whose output or input is not bound in this
/// section, and those whose input is not filled right before them by the same thread.
std::vector<GatherChain> gather_chains(const Graph& graph, const HostActions& actions);

}  // namespace foregather::sim
