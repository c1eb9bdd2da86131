#include "sim/memory/memory_bound.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>

namespace foregather::sim {
namespace {

constexpr std::uint32_t kMostNodesForAll = 16'384;
constexpr std::size_t kMostSteps = 20'000'000;

// Bit v of row n: n, or what comes after it (before it).
class Reach {
 public:
  explicit Reach(std::uint32_t nodes) : words_((nodes + 63) / 64), bits_(words_ * nodes) {}

  std::span<std::uint64_t> row(std::uint32_t node) {
    return std::span(bits_).subspan(words_ * node, words_);
  }
  void add(std::uint32_t node, std::span<const std::uint32_t> neighbours) {
    row(node)[node / 64] |= std::uint64_t{1} << (node % 64);
    for (const std::uint32_t other : neighbours) join(row(node), row(other));
  }
  static void join(std::span<std::uint64_t> to, std::span<const std::uint64_t> from) {
    for (std::size_t w = 0; w < to.size(); ++w) to[w] |= from[w];
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

Bytes bound_over_all(const OrderProblem& problem, const OrderIndex& index) {
  Reach earlier(problem.nodes), later(problem.nodes);
  for (std::uint32_t n = 0; n < problem.nodes; ++n) earlier.add(n, index.before(n));
  for (std::uint32_t n = problem.nodes; n-- > 0;) later.add(n, index.after(n));
  std::vector<Bytes> held(problem.nodes, 0);
  Bytes always = 0;
  std::vector<std::uint64_t> begun((problem.nodes + 63) / 64), used(begun.size());
  for (const OrderProblem::Storage& storage : problem.storages) {
    if (storage.at_start && storage.at_end) {
      always += storage.bytes;
      continue;
    }
    std::ranges::fill(begun, storage.at_start ? ~std::uint64_t{0} : 0);
    std::ranges::fill(used, storage.at_end ? ~std::uint64_t{0} : 0);
    for (const std::uint32_t node : storage.nodes) {
      if (!storage.at_start) Reach::join(begun, later.row(node));
      if (!storage.at_end) Reach::join(used, earlier.row(node));
    }
    for (std::size_t w = 0; w < begun.size(); ++w)
      for (std::uint64_t both = begun[w] & used[w]; both != 0; both &= both - 1) {
        const std::size_t node = w * 64 + static_cast<std::size_t>(std::countr_zero(both));
        if (node < held.size()) held[node] += storage.bytes;
      }
  }
  return always + (held.empty() ? 0 : *std::ranges::max_element(held));
}

// By node, what the given order holds.
std::vector<Bytes> held_in_order(const OrderProblem& problem) {
  std::vector<Bytes> change(problem.nodes + 1, 0);
  for (const OrderProblem::Storage& storage : problem.storages) {
    if (storage.nodes.empty()) continue;
    const auto [first, last] = std::ranges::minmax_element(storage.nodes);
    change[storage.at_start ? 0 : *first] += storage.bytes;
    change[storage.at_end ? problem.nodes : *last + 1] -= storage.bytes;
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  change.pop_back();
  return change;
}

// What is held at one node in every order.
class HeldAt {
 public:
  HeldAt(const OrderProblem& problem, const OrderIndex& index)
      : problem_(problem), index_(index), side_(problem.nodes) {}

  Bytes operator()(std::uint32_t node) {
    std::ranges::fill(side_, Side::either);
    spread(node, Side::earlier, [&](std::uint32_t at) { return index_.before(at); });
    spread(node, Side::later, [&](std::uint32_t at) { return index_.after(at); });
    Bytes bytes = 0;
    for (const OrderProblem::Storage& storage : problem_.storages) {
      bool begun = storage.at_start, used = storage.at_end;
      for (const std::uint32_t at : storage.nodes) {
        begun |= at == node || side_[at] == Side::earlier;
        used |= at == node || side_[at] == Side::later;
      }
      if (begun && used) bytes += storage.bytes;
    }
    return bytes;
  }

 private:
  enum class Side : std::uint8_t { either, earlier, later };

  template <class Next>
  void spread(std::uint32_t from, Side side, Next next) {
    stack_.assign(1, from);
    while (!stack_.empty()) {
      const std::uint32_t at = stack_.back();
      stack_.pop_back();
      for (const std::uint32_t other : next(at)) {
        if (side_[other] == side) continue;
        side_[other] = side;
        stack_.push_back(other);
      }
    }
  }

  const OrderProblem& problem_;
  const OrderIndex& index_;
  std::vector<Side> side_;
  std::vector<std::uint32_t> stack_;
};

Bytes bound_over_some(const OrderProblem& problem, const OrderIndex& index) {
  std::size_t steps = problem.nodes + 2 * problem.edges.size();
  for (const OrderProblem::Storage& storage : problem.storages) steps += storage.nodes.size() + 1;
  const std::vector<Bytes> held = held_in_order(problem);
  std::vector<std::uint32_t> nodes(problem.nodes);
  std::iota(nodes.begin(), nodes.end(), 0);
  const std::size_t some = std::clamp<std::size_t>(kMostSteps / steps, 1, nodes.size());
  std::ranges::partial_sort(nodes, nodes.begin() + static_cast<std::ptrdiff_t>(some), {},
                            [&](std::uint32_t node) { return std::pair(-held[node], node); });
  HeldAt held_at(problem, index);
  Bytes bound = 0;
  for (std::size_t i = 0; i < some; ++i) bound = std::max(bound, held_at(nodes[i]));
  return bound;
}

}  // namespace

Bytes peak_bound(const OrderProblem& problem) {
  Bytes at_start = 0, at_end = 0;
  for (const OrderProblem::Storage& storage : problem.storages) {
    if (storage.at_start) at_start += storage.bytes;
    if (storage.at_end) at_end += storage.bytes;
  }
  const OrderIndex index(problem);
  const Bytes inside = problem.nodes <= kMostNodesForAll ? bound_over_all(problem, index)
                                                         : bound_over_some(problem, index);
  return std::max({at_start, at_end, inside});
}

Bytes peak_memory_bound(const Graph& graph, ProgramId program) {
  return peak_bound(body_order(graph, graph.at(program), Held::used).problem);
}

Bytes peak_memory_bound(const Graph& graph) {
  Bytes bound = 0;
  for (std::size_t p = 0; p < graph.programs.size(); ++p)
    bound = std::max(bound, peak_memory_bound(graph, ProgramId(p)));
  return bound;
}

}  // namespace foregather::sim
