// In which order ops need the least memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/units.h"

namespace foregather::sim {

/// Ops as nodes, numbered in an order that is allowed. A storage takes its bytes from the first
/// node that touches it until the last one has run; both are inclusive.
struct OrderProblem {
  struct Storage {
    Bytes bytes = 0;
    std::vector<std::uint32_t> nodes;  ///< that touch it, each once
    bool at_start = false;             ///< it has its bytes before the first node
    bool at_end = false;               ///< and keeps them after the last
  };
  struct Edge {
    std::uint32_t before = 0;
    std::uint32_t after = 0;  ///< > before
  };
  std::uint32_t nodes = 0;
  std::vector<Edge> edges;
  std::vector<Storage> storages;
};

struct MemoryOrder {
  std::vector<std::uint32_t> order;  ///< nodes
  Bytes peak = 0;
  Bytes bound = 0;  ///< no order needs less: the peak itself if that is proved
  bool is_least() const { return peak == bound; }
};

/// The largest sum of bytes while a node runs. `order` must be allowed.
Bytes peak_of(const OrderProblem& problem, std::span<const std::uint32_t> order);

/// Over the nodes, the largest sum of bytes that are held at that node in every order. Cost:
/// (nodes + touches) × nodes / 64; beyond 16,384 nodes only what each touches itself is counted.
Bytes peak_bound(const OrderProblem& problem);

/// An order of least peak, or the best that was found, never worse than the given one.
///
/// Best-first search over sets of nodes that have run, by the peak so far: the first complete set
/// has the least peak. A node that needs no more than the peak so far and leaves no more behind
/// than it found is run at once: no order that runs it later is better. What list schedulers reach
/// (forward by memory left behind, depth first, and backward by net allocation) and a beam search
/// bounds it; once it has looked at as many sets as it may, their best stands, and the gap to the
/// bound with it. A second or two for hundreds to thousands of nodes.
///
/// Deterministic.
MemoryOrder least_memory_order(const OrderProblem& problem);

}  // namespace foregather::sim
