#include "sim/passes/list_orders.h"

#include <algorithm>
#include <utility>

#include "sim/passes/order_state.h"

namespace foregather::sim {
namespace {

// The next node is the ready one with the least key(state, node); among equals the first in
// program order.
template <class Key>
std::vector<std::uint32_t> list_schedule(const OrderProblem& problem, const OrderIndex& index,
                                         Key key) {
  OrderState state(problem, index);
  std::vector<std::uint32_t> order;
  order.reserve(index.nodes());
  while (!state.ready().empty()) {
    const std::uint32_t next = *std::ranges::min_element(
        state.ready(), {}, [&](std::uint32_t node) { return std::pair(key(state, node), node); });
    state.run(next);
    order.push_back(next);
    key.ran(next);
  }
  return order;
}

// What it leaves behind, then what it needs.
struct LeastLeft {
  std::pair<Bytes, Bytes> operator()(const OrderState& state, std::uint32_t node) const {
    const OrderState::Effect effect = state.effect(node);
    return {effect.after, effect.during};
  }
  void ran(std::uint32_t) {}
};

// First the node that uses what was made last.
struct DepthFirst {
  const OrderIndex& index;
  std::vector<std::int64_t> made_at;  ///< by node: minus the time when it ran
  std::int64_t time = 0;

  explicit DepthFirst(const OrderIndex& of) : index(of), made_at(of.nodes(), 1) {}
  std::int64_t operator()(const OrderState&, std::uint32_t node) const {
    std::int64_t latest = 1;
    for (const std::uint32_t before : index.before(node))
      latest = std::min(latest, made_at[before]);
    return latest;
  }
  void ran(std::uint32_t node) { made_at[node] = -++time; }
};

}  // namespace

std::vector<std::uint32_t> least_left_order(const OrderProblem& problem) {
  return list_schedule(problem, OrderIndex(problem), LeastLeft{});
}

std::vector<std::uint32_t> depth_first_order(const OrderProblem& problem) {
  const OrderIndex index(problem);
  return list_schedule(problem, index, DepthFirst(index));
}

}  // namespace foregather::sim
