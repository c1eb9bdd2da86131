#include "sim/passes/memory_order.h"

#include <catch2/catch.hpp>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "sim/memory/memory_bound.h"
#include "tests/support/repetitions.h"

namespace foregather::sim {
namespace {

constexpr Bytes kMatrix = 256 * 256 * 4;

// Storages are made by one node and read by later ones.
class Builder {
 public:
  using Value = std::uint32_t;
  // Reads `inputs` and makes `outputs` values.
  std::vector<Value> node(const std::vector<Value>& inputs, std::size_t outputs = 1,
                          Bytes bytes = kMatrix) {
    const std::uint32_t node = problem.nodes++;
    for (const Value value : std::set(inputs.begin(), inputs.end())) {
      problem.edges.push_back({maker_[value], node});
      problem.storages[value].nodes.push_back(node);
    }
    std::vector<Value> made;
    for (std::size_t i = 0; i < outputs; ++i) {
      made.push_back(static_cast<Value>(problem.storages.size()));
      problem.storages.push_back({bytes, {node}, false, false});
      maker_.push_back(node);
    }
    return made;
  }
  OrderProblem problem;

 private:
  std::vector<std::uint32_t> maker_;
};

// lightning-thunder issue 1337: relu, matmul with itself, relu, matmul onto what is carried.
OrderProblem by_path(std::uint32_t paths) {
  Builder b;
  std::vector<Builder::Value> carried;
  for (std::uint32_t i = 0; i < paths; ++i) {
    const auto square = b.node(b.node({}));
    const auto relu = b.node(square);
    carried = b.node(carried.empty() ? relu : std::vector{relu[0], carried[0]});
  }
  b.problem.storages[carried[0]].at_end = true;
  return b.problem;
}

OrderProblem problem_by_stage(std::uint32_t paths, bool fused) {
  Builder b;
  std::vector<Builder::Value> values;
  if (fused) values = b.node({}, paths);
  for (std::uint32_t i = 0; !fused && i < paths; ++i) values.push_back(b.node({})[0]);
  for (Builder::Value& value : values) value = b.node({value})[0];
  if (fused)
    values = b.node(values, paths);
  else
    for (Builder::Value& value : values) value = b.node({value})[0];
  std::vector<Builder::Value> carried;
  for (const Builder::Value value : values)
    carried = b.node(carried.empty() ? std::vector{value} : std::vector{value, carried[0]});
  b.problem.storages[carried[0]].at_end = true;
  return b.problem;
}

Bytes program_peak(const OrderProblem& problem) {
  std::vector<std::uint32_t> order(problem.nodes);
  std::iota(order.begin(), order.end(), 0);
  return peak_of(problem, order);
}

bool is_allowed(const OrderProblem& problem, const std::vector<std::uint32_t>& order) {
  std::vector<std::uint32_t> at(problem.nodes, problem.nodes);
  for (std::uint32_t i = 0; i < order.size(); ++i) at[order[i]] = i;
  return order.size() == problem.nodes &&
         std::ranges::all_of(at, [&](std::uint32_t i) { return i < problem.nodes; }) &&
         std::ranges::all_of(problem.edges, [&](const OrderProblem::Edge& edge) {
           return at[edge.before] < at[edge.after];
         });
}

OrderProblem random_problem(std::uint64_t seed, std::uint32_t nodes) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::uint32_t>(random() % n); };
  Builder b;
  std::vector<Builder::Value> values;
  for (std::uint32_t i = 0; i < nodes; ++i) {
    std::vector<Builder::Value> inputs;
    for (std::uint32_t k = below(3); k > 0 && !values.empty(); --k)
      inputs.push_back(values[below(values.size())]);
    for (const auto value : b.node(inputs, below(3), 1 + below(9))) values.push_back(value);
  }
  for (auto& storage : b.problem.storages) {
    storage.at_end = below(6) == 0;
    storage.at_start = below(12) == 0;
  }
  return b.problem;
}

// All orders.
Bytes least_by_force(const OrderProblem& problem) {
  std::vector<std::uint32_t> order(problem.nodes);
  std::iota(order.begin(), order.end(), 0);
  Bytes least = program_peak(problem);
  do {
    if (is_allowed(problem, order)) least = std::min(least, peak_of(problem, order));
  } while (std::ranges::next_permutation(order).found);
  return least;
}

}  // namespace

TEST_CASE("the four programs of issue 1337 need what their formulas say") {
  for (const std::uint32_t paths : {2U, 3U, 10U, 25U}) {
    CAPTURE(paths);
    CHECK(program_peak(by_path(paths)) == 3 * kMatrix);
    CHECK(program_peak(problem_by_stage(paths, false)) == (paths + 1) * kMatrix);
    CHECK(program_peak(problem_by_stage(paths, true)) == 2 * paths * kMatrix);
  }
}

TEST_CASE("any order of the ten paths is brought to three tensors, which is proved the least") {
  for (const OrderProblem& problem :
       {by_path(10), problem_by_stage(10, false), problem_by_stage(40, false)}) {
    const MemoryOrder least = least_memory_order(problem);
    CHECK(is_allowed(problem, least.order));
    CHECK(least.peak == 3 * kMatrix);
    CHECK(least.is_least());
  }
}

TEST_CASE("horizontal regions that are kept are proved to need all their tensors") {
  for (const std::uint32_t paths : {2U, 10U, 25U}) {
    const MemoryOrder least = least_memory_order(problem_by_stage(paths, true));
    CHECK(least.peak == 2 * paths * kMatrix);
    CHECK(least.is_least());
  }
}

TEST_CASE("a bound over some nodes of a large problem stays below the peak, and finds the widest") {
  // A chain with one node that needs ten tensors; 20,000 nodes are too many to look at all.
  Builder b;
  auto value = b.node({});
  for (int i = 0; i < 20'000; ++i) value = b.node(value);
  const auto many = b.node(value, 9);
  b.node(many);
  CHECK(peak_bound(b.problem) == 10 * kMatrix);
  CHECK(program_peak(b.problem) == 10 * kMatrix);
}

TEST_CASE("an empty problem has an empty order") {
  const MemoryOrder least = least_memory_order({});
  CHECK(least.order.empty());
  CHECK(least.peak == 0);
}

TEST_CASE("the order of least peak is what trying all orders finds") {
  rc::prop("on random graphs of few nodes", [] {
    const OrderProblem problem = random_problem(*rc::gen::arbitrary<std::uint64_t>(),
                                                *rc::gen::inRange<std::uint32_t>(1, 7));
    const MemoryOrder least = least_memory_order(problem);
    RC_ASSERT(is_allowed(problem, least.order));
    RC_ASSERT(peak_of(problem, least.order) == least.peak);
    RC_ASSERT(least.peak == least_by_force(problem));
    RC_ASSERT(least.is_least());
    RC_ASSERT(peak_bound(problem) <= least.peak);
  });
}

TEST_CASE("a large graph gets an order that is no worse, with a bound below it") {
  for (int seed = 1; seed <= test::repetitions(12); ++seed) {
    CAPTURE(seed);
    const OrderProblem problem =
        random_problem(static_cast<std::uint64_t>(seed), static_cast<std::uint32_t>(20 * seed));
    const MemoryOrder found = least_memory_order(problem);
    CHECK(is_allowed(problem, found.order));
    CHECK(peak_of(problem, found.order) == found.peak);
    CHECK(found.peak <= program_peak(problem));
    CHECK(found.bound <= found.peak);
    CHECK(peak_bound(problem) <= found.bound);
  }
}

}  // namespace foregather::sim
