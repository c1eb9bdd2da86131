// A section in another order of its ops.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/memory/order_problem.h"
#include "sim/passes/rewriter.h"

namespace foregather::sim {

/// Writes a list of actions anew, which launches the ops of `body` and is its program's only one,
/// in the order of `nodes` (all of body's, as its edges allow). A storage is allocated before its
/// first op and freed after its last one; a stream waits for another one where an op needs it, and
/// a side stream for all that the main one did before.
void write_order(Rewriter& rewriter, const ActionList& list, const BodyOrder& body,
                 const std::vector<std::uint32_t>& nodes);

}  // namespace foregather::sim
