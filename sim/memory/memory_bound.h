// What no allocator and no order of ops can go below.
#pragma once

#include "core/base/units.h"
#include "core/ir/graph.h"
#include "sim/memory/order_problem.h"

namespace foregather::sim {

/// Over the nodes, the largest sum of bytes that are held at that node in every order. Cost:
/// (nodes + edges + touches) × nodes / 64. Beyond 16,384 nodes only some are looked at, those where
/// the given order holds most: the answer stays a bound, and the cost some 10^7 steps.
Bytes peak_bound(const OrderProblem& problem);

/// Requested bytes that are held at some op of a steady step whatever the order of its ops, by the
/// program that needs most. Only what is used counts: from the first access of a storage to the
/// last one.
Bytes peak_memory_bound(const Graph& graph);
/// The same of one program.
Bytes peak_memory_bound(const Graph& graph, ProgramId program);

}  // namespace foregather::sim
