// What no allocator and no order of frees can go below.
#pragma once

#include "core/base/units.h"
#include "core/ir/graph.h"

namespace foregather::sim {

/// Requested bytes that every allocator holds at some point of a steady step: the largest sum of
/// storages that were accessed before and are accessed again, over the points of each host thread,
/// of the program that needs most. Cost: n log n in accesses and allocations.
Bytes peak_memory_bound(const Graph& graph);
/// The same of one program.
Bytes peak_memory_bound(const Graph& graph, ProgramId program);

}  // namespace foregather::sim
