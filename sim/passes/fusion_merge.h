// Ops that stand together become one op.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "sim/passes/rewriter.h"

namespace foregather::sim {

/// What a fuser can put into one region with others of the same: elementwise work, norms, copies,
/// reductions and the like on one stream, in one phase of one micro-batch. Nothing: products,
/// attention, collectives, what FSDP does around them, optimizers, and regions that are there.
std::optional<std::uint32_t> fusion_side(const Graph& graph, const Op& op);

struct MergeRules {
  /// No region may hold more at once than the program that is given does at its peak.
  bool within_peak = true;
  /// Ops of different groups are not merged; an op without one is not merged at all. Nothing: all
  /// that stand together may be.
  std::optional<std::map<OpId, std::size_t>> group_of;
};

/// Makes one op of each longest run of launches with nothing but memory actions and host delays in
/// between: `fused`, with the scope, phase and unit of the first and all of them as origins. It
/// reads what came from outside and writes what goes there; what only its parts touch is allocated
/// no more; what was allocated or freed in between is so before or behind it. A region stands in
/// the first step as in the steady one, or not at all. FLOPs add up, and so do times that are
/// fixed. Returns the regions made.
std::size_t merge_neighbours(Rewriter& rewriter, const MergeRules& rules);

}  // namespace foregather::sim
