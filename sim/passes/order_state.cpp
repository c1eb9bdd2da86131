#include "sim/passes/order_state.h"

#include <algorithm>
#include <cassert>

namespace foregather::sim {

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
