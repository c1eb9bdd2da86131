// In which order ops need the least memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/units.h"
#include "sim/memory/order_problem.h"

namespace foregather::sim {

struct MemoryOrder {
  std::vector<std::uint32_t> order;  ///< nodes
  Bytes peak = 0;
  Bytes bound = 0;  ///< no order needs less: the peak itself if that is proved
  bool is_least() const { return peak == bound; }
};

/// The largest sum of bytes while a node runs. `order` must be allowed.
Bytes peak_of(const OrderProblem& problem, std::span<const std::uint32_t> order);

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
