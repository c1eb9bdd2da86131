// Nodes of an OrderProblem that have run, and what is held meanwhile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/memory/order_problem.h"

namespace foregather::sim {

/// Runs nodes one by one. Copies are cheap enough to keep a few.
class OrderState {
 public:
  /// Both are borrowed.
  OrderState(const OrderProblem& problem, const OrderIndex& index);

  struct Effect {
    Bytes during = 0;  ///< held while the node runs
    Bytes after = 0;   ///< held then
  };
  Effect effect(std::uint32_t node) const;
  /// The node must be ready.
  void run(std::uint32_t node);
  /// Nodes that may run now, in no order.
  std::span<const std::uint32_t> ready() const { return ready_; }
  bool is_ready(std::uint32_t node) const { return missing_[node] == 0 && !has_run_[node]; }
  bool has_run(std::uint32_t node) const { return has_run_[node] != 0; }
  Bytes held() const { return held_; }

 private:
  const OrderProblem* problem_;
  const OrderIndex* index_;
  std::vector<std::uint32_t> missing_;  ///< by node: nodes before it that have not run
  std::vector<std::uint8_t> has_run_;
  std::vector<std::uint32_t> users_;  ///< by storage: nodes that have not run
  std::vector<std::uint8_t> is_held_;
  std::vector<std::uint32_t> ready_;
  Bytes held_ = 0;
};

}  // namespace foregather::sim
