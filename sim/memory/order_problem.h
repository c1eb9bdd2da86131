// The ops of a step as a partial order, and what they hold.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ir/graph.h"

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
    friend auto operator<=>(const Edge&, const Edge&) = default;
  };
  std::uint32_t nodes = 0;
  std::vector<Edge> edges;
  std::vector<Storage> storages;
};

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

/// What a storage holds around the steady step.
enum class Held : std::uint8_t {
  bound,  ///< whatever is bound to memory at its start, or until its end
  used,   ///< only what was there before and is read, or there before and after
};

struct BodyOrder {
  OrderProblem problem;
  std::vector<OpId> ops;  ///< by node, as the host launches them
};

/// The ops that a program launches in a steady step. One follows another that it shares bytes with,
/// one of the two writing, and those it names as deps. A storage that is bound again in the step is
/// another one; those in host memory are left out. A free before later launches may move to the
/// last use. Cost: n log n in accesses.
BodyOrder body_order(const Graph& graph, const Program& program, Held held);

}  // namespace foregather::sim
