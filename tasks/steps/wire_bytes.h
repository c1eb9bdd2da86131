// What one rank sends for one collective.
#pragma once

#include "core/ir/graph.h"

namespace foregather::tasks {

/// Ring formulas over n ranks and NCCL's message size: (n−1)/n for all-gather, reduce-scatter,
/// broadcast, reduce and all-to-all (for broadcast and reduce the mean over ranks), 2(n−1)/n for
/// all-reduce, all of it for send-recv, nothing for one rank. Rounded down.
Bytes wire_bytes(const Graph& graph, const Op& op);

}  // namespace foregather::tasks
