// Orders that take the next op by a rule, without looking back.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/memory/order_problem.h"

namespace foregather::sim {

/// Of the ops that may run, always the one that leaves the fewest bytes behind: what it makes minus
/// what it is the last to use. A gather costs its size, a release or a reduction gives it back (the
/// list_schedule of DeepSpeed's DeepCompile). Then the one that needs least meanwhile, then program
/// order. Cost: nodes × ready nodes.
std::vector<std::uint32_t> least_left_order(const OrderProblem& problem);

/// Of the ops that may run, always the one that uses what was made last; then program order.
std::vector<std::uint32_t> depth_first_order(const OrderProblem& problem);

}  // namespace foregather::sim
