// Which ops a fuser would put into one region: the rules of lightning-thunder, on any partial
// order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace foregather::sim {

struct FusionNode {
  std::optional<std::uint32_t> side;  ///< nodes of one side may be fused; nothing: never
  std::vector<std::uint32_t> needs;   ///< nodes that come before, all with smaller numbers
};

/// Nodes of a region in ascending order; two or more.
using FusionGroup = std::vector<std::uint32_t>;

/// Thunder's dataflow_merge: from the first node on, a node is merged with one that needs it where
/// no other way leads from one to the other, again and again until nothing merges.
std::vector<FusionGroup> vertical_groups(std::span<const FusionNode> nodes);

/// Thunder's horizontal_merge: of the nodes that are ready, the first in the queue, with every one
/// behind it that may be fused with it, those included that become ready by that.
std::vector<FusionGroup> horizontal_groups(std::span<const FusionNode> nodes);

/// The nodes with each group in one piece: always the first node whose needs, or the group of the
/// first one whose outside needs, are there. Nothing: some groups need each other.
std::optional<std::vector<FusionGroup>> grouped_order(std::span<const FusionNode> nodes,
                                                      std::span<const FusionGroup> groups);

}  // namespace foregather::sim
