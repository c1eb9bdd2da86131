// Fusion regions and what they are made of.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/passes/rewriter.h"

namespace foregather::sim {

/// Which ops any action launches, by row.
std::vector<bool> launched_ops(const Graph& graph);

/// Is it a region that says what it is made of: a fused op with origins of its stream that nothing
/// launches?
/// These are its parts, in an order that they can run in, with their own accesses and costs; what
/// they touch and it does not are its intermediates.
bool has_parts(const Graph& graph, const std::vector<bool>& is_launched, OpId op);

/// Launches parts in the place of each region that has some: intermediates are allocated and freed
/// around the parts that touch them, and so is what was allocated right before the region or freed
/// right behind it. Returns the regions of the steady step.
std::size_t take_apart(Rewriter& rewriter);

}  // namespace foregather::sim
