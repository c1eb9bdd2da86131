#include "sim/passes/order_state.h"

#include <algorithm>
#include <cassert>

namespace foregather::sim {

OrderIndex::OrderIndex(const OrderProblem& problem) : nodes_(problem.nodes) {
  const auto fill = [&](Lists& lists, const auto& for_each) {
    lists.first.assign(nodes_ + 1, 0);
    for_each([&](std::uint32_t node, std::uint32_t) { ++lists.first[node + 1]; });
    for (std::uint32_t node = 0; node < nodes_; ++node) lists.first[node + 1] += lists.first[node];
    lists.items.resize(lists.first[nodes_]);
    std::vector<std::uint32_t> at = lists.first;
    for_each([&](std::uint32_t node, std::uint32_t item) { lists.items[at[node]++] = item; });
  };
  fill(after_, [&](const auto& add) {
    for (const OrderProblem::Edge& edge : problem.edges) add(edge.before, edge.after);
  });
  fill(before_, [&](const auto& add) {
    for (const OrderProblem::Edge& edge : problem.edges) add(edge.after, edge.before);
  });
  fill(touched_, [&](const auto& add) {
    for (std::uint32_t s = 0; s < problem.storages.size(); ++s)
      for (const std::uint32_t node : problem.storages[s].nodes) add(node, s);
  });
}

OrderState::OrderState(const OrderProblem& problem, const OrderIndex& index)
    : problem_(&problem),
      index_(&index),
      missing_(index.nodes()),
      has_run_(index.nodes()),
      users_(problem.storages.size()),
      is_held_(problem.storages.size()) {
  for (std::uint32_t node = 0; node < index.nodes(); ++node) {
    missing_[node] = static_cast<std::uint32_t>(index.before(node).size());
    if (missing_[node] == 0) ready_.push_back(node);
  }
  for (std::size_t s = 0; s < users_.size(); ++s) {
    const OrderProblem::Storage& storage = problem.storages[s];
    users_[s] = static_cast<std::uint32_t>(storage.nodes.size());
    is_held_[s] = storage.at_start ? 1 : 0;
    if (storage.at_start) held_ += storage.bytes;
  }
}

OrderState::Effect OrderState::effect(std::uint32_t node) const {
  Effect effect{held_, held_};
  for (const std::uint32_t s : index_->storages(node)) {
    const OrderProblem::Storage& storage = problem_->storages[s];
    if (!is_held_[s]) {
      effect.during += storage.bytes;
      effect.after += storage.bytes;
    }
    if (users_[s] == 1 && !storage.at_end) effect.after -= storage.bytes;
  }
  return effect;
}

void OrderState::run(std::uint32_t node) {
  assert(is_ready(node));
  held_ = effect(node).after;
  for (const std::uint32_t s : index_->storages(node))
    is_held_[s] = --users_[s] != 0 || problem_->storages[s].at_end ? 1 : 0;
  has_run_[node] = 1;
  const auto at = std::ranges::find(ready_, node);
  *at = ready_.back();
  ready_.pop_back();
  for (const std::uint32_t next : index_->after(node))
    if (--missing_[next] == 0) ready_.push_back(next);
}

}  // namespace foregather::sim
