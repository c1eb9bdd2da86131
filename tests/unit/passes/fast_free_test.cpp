// DeepCompile's list scheduler on graphs small enough to follow by hand.
#include <catch2/catch.hpp>

#include "sim/passes/fast_free.h"

using namespace foregather;
using sim::FreeNode;
using sim::FreeRule;

namespace {

struct ToyGraph {
  std::vector<FreeNode> nodes;
  std::vector<std::string> labels;

  std::uint32_t add(std::string label, std::vector<std::uint32_t> args, Ns time = 1) {
    FreeNode node;
    node.args = std::move(args);
    node.time = time;
    nodes.push_back(node);
    labels.push_back(std::move(label));
    return static_cast<std::uint32_t>(nodes.size() - 1);
  }
  std::uint32_t gather(std::string label, Bytes bytes) {
    const std::uint32_t row = add(label, {});
    nodes[row].is_gather = true;
    nodes[row].bytes = bytes;
    nodes[row].name = std::move(label);
    return row;
  }

  std::string order(FreeRule rule = FreeRule::since_2026) const {
    std::string text;
    for (const std::uint32_t row : sim::fast_free_order(nodes, rule))
      text += (text.empty() ? "" : " ") + labels[row];
    return text;
  }
};

/// A backward of three layers as zero3_compile leaves it: gathers at the head; each layer's dx
/// needs its weight and the dx before, its dw only that dx.
ToyGraph backward_of_two(bool is_fused) {
  ToyGraph graph;
  std::vector<std::uint32_t> gathers;
  for (int layer = 1; layer <= 3; ++layer)
    gathers.push_back(graph.gather("g" + std::to_string(layer), is_fused ? 2 : 4));
  std::vector<std::uint32_t> before;
  for (int layer = 3; layer >= 1; --layer) {
    const std::string name = std::to_string(layer);
    const std::uint32_t gather = gathers[static_cast<std::size_t>(layer - 1)];
    std::vector<std::uint32_t> weight{gather};
    // The smaller the layer's number, the quicker its cast.
    if (!is_fused) weight = {graph.add("c" + name, {gather}, layer)};
    graph.nodes[gather].last_use = weight.front();
    const std::uint32_t dw = graph.add("dw" + name, before);
    const std::uint32_t reduce = graph.add("r" + name, {dw});
    graph.nodes[reduce].is_reduce = true;
    std::vector<std::uint32_t> args = before;
    args.push_back(weight.front());
    const std::uint32_t dx = graph.add("dx" + name, args);
    if (is_fused) graph.nodes[gather].last_use = dx;
    before = {dx};
  }
  return graph;
}

}  // namespace

TEST_CASE("before the fusion all gathers and casts stand at the head") {
  for (const FreeRule rule : {FreeRule::since_2026, FreeRule::until_2026})
    CHECK(backward_of_two(false).order(rule) ==
          "g1 c1 g2 c2 g3 c3 dx3 dw2 r2 dx2 dw1 r1 dw3 r3 dx1");
}

TEST_CASE("after it gathers come between the compute, and each is freed before the next") {
  for (const FreeRule rule : {FreeRule::since_2026, FreeRule::until_2026})
    CHECK(backward_of_two(true).order(rule) == "g3 dx3 dw2 r2 g2 dx2 dw1 r1 g1 dx1 dw3 r3");
}

TEST_CASE("ties between gathers that free themselves: gathers, bytes, time, name") {
  ToyGraph graph;
  const auto b = graph.gather("b", 8);
  const auto a = graph.gather("a", 8);
  const auto small = graph.gather("small", 4);
  graph.nodes[b].last_use = graph.add("use_b", {b}, 5);
  graph.nodes[a].last_use = graph.add("use_a", {a}, 5);
  graph.nodes[small].last_use = graph.add("use_small", {small}, 9);
  // The fewest bytes first, though it takes longer; then by name.
  CHECK(graph.order() == "small use_small a use_a b use_b");
  // By time alone; equal ones in the order of the graph.
  CHECK(graph.order(FreeRule::until_2026) == "b use_b a use_a small use_small");
}

TEST_CASE("where no gather frees itself one goes alone, that which needs the least of others") {
  ToyGraph graph;
  const auto a = graph.gather("a", 8);
  const auto b = graph.gather("b", 2);
  const auto use = graph.add("use", {a, b}, 5);
  graph.nodes[a].last_use = use;
  graph.nodes[b].last_use = use;
  // For a the other is 2 bytes; then b frees itself.
  CHECK(graph.order() == "a b use");
  std::swap(graph.nodes[a].bytes, graph.nodes[b].bytes);
  CHECK(graph.order() == "b a use");
}

TEST_CASE("what no gather leads to stays in its order at the end, and outputs come when they can") {
  ToyGraph graph;
  const auto lone = graph.add("lone", {});
  const auto a = graph.gather("a", 8);
  const auto use = graph.add("use", {a});
  const auto output = graph.add("output", {use});
  const auto b = graph.gather("b", 8);
  graph.add("rest", {lone});
  const auto last = graph.add("last", {use, b});
  graph.nodes[a].last_use = use;
  graph.nodes[b].last_use = last;
  graph.nodes[output].is_output = true;
  CHECK(graph.order() == "a use output b last lone rest");
}
