// Nodes of an OrderProblem that have run, and what is held meanwhile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/passes/memory_order.h"

namespace foregather::sim {

/// Lists of an OrderProblem by node, in flat arrays.
class OrderIndex {
 public:
  explicit OrderIndex(const OrderProblem& problem);

  std::uint32_t nodes() const { return nodes_; }
  std::span<const std::uint32_t> after(std::uint32_t node) const { return row(after_, node); }
  std::span<const std::uint32_t> before(std::uint32_t node) const { return row(before_, node); }
  std::span<const std::uint32_t> storages(std::uint32_t node) const { return row(touched_, node); }

 private:
  struct Lists {
    std::vector<std::uint32_t> first;
    std::vector<std::uint32_t> items;
  };
  static std::span<const std::uint32_t> row(const Lists& lists, std::uint32_t node) {
    return std::span(lists.items)
        .subspan(lists.first[node], lists.first[node + 1] - lists.first[node]);
  }

  std::uint32_t nodes_;
  Lists after_, before_, touched_;
};

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
