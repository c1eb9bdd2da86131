// Ops that stand together become one op.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "sim/memory/live.h"
#include "sim/passes/rewriter.h"

namespace foregather::sim {

/// What a fuser can put into one region with others of the same: elementwise work, norms, copies,
/// reductions and the like on one stream, in one phase of one micro-batch. Nothing: products,
/// attention, collectives, what FSDP does around them, optimizers, and regions that are there.
std::optional<std::uint32_t> fusion_side(const Graph& graph, const Op& op);

struct MergeRules {
  /// By program: no region may hold more at once. Nothing: regions hold what they hold.
  std::optional<std::vector<LiveMemory>> most;
  /// Ops of different groups are not merged; an op without one is not merged at all. Nothing: all
  /// that stand together may be.
  std::optional<std::map<OpId, std::size_t>> group_of;
};

/// Makes one op of each longest run of launches with nothing but memory actions and host delays in
/// between: `fused`, with the scope, phase and unit of the first and all of them as origins. It
/// reads what came from outside and writes what goes there; what only its parts touch is allocated
/// no more; what was allocated or freed in between is so before or behind it. An op that both
/// steps launch is in the same region in both, or in none. FLOPs add up, and so do times that are
/// fixed. Returns the regions made.
std::size_t merge_neighbours(Rewriter& rewriter, const MergeRules& rules);

}  // namespace foregather::sim
