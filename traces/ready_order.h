// The order in which a graph of nodes starts where nothing but its dependencies and its resources
// decide: a list schedule.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/units.h"
#include "traces/chakra.h"

namespace foregather::traces {

/// By row of the nodes that `deps` is of.
struct ReadyOrderInput {
  const ChakraDeps& deps;
  std::span<const std::uint32_t> resource;  ///< numbered from 0; runs one node at a time
  std::span<const Ns> duration;
  /// By resource: its nodes in the order that they must start in, or none: any order will do.
  std::span<const std::vector<std::uint32_t>> prescribed;
};

/// Rows in the order of their starts: whenever a resource is free it takes the node that has been
/// ready for longest, the first in the file of equals. Each node comes behind what it depends on.
/// Shorter than the nodes where a circle, or a prescribed order against the dependencies, lets no
/// more start. Cost: a heap operation for each node.
std::vector<std::uint32_t> ready_order(const ReadyOrderInput& input);

}  // namespace foregather::traces
