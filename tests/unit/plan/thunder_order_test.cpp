// Thunder's order of gathers and waits, as its passes' golden orders have them (reference §B.7).
#include <algorithm>
#include <set>
#include <catch2/catch.hpp>

#include "core/plan/lower.h"
#include "tests/unit/plan/toy_model.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

Graph thunder(Strategy strategy, ThunderBucketing bucketing) {
  Workload workload = toy_workload(2);
  workload.parallel.strategy = strategy;
  workload.parallel.thunder_bucketing = bucketing;
  workload.parallel.reduce_dtype = DType::bf16;
  workload.train.master = DType::bf16;
  ToyShape shape;
  shape.layers = 2;
  const Result<Graph> graph = lower(toy_model(shape), workload);
  REQUIRE(graph.has_value());
  return *graph;
}

/// Of a pass of the steady step: "a" a gather, "r" a reduction, a digit: the first op that reads
/// the n-th gathered parameter.
std::string order(const Graph& graph, Phase phase) {
  std::string text;
  std::set<std::uint32_t> seen;
  for (const HostThread& thread : graph.programs[0].threads)
    for (const Action& action : thread.actions(Section::body)) {
      if (action.kind != ActionKind::launch) continue;
      const Op& op = graph.ops[action.a];
      if (op.phase != phase) continue;
      if (op.kind == OpKind::all_gather) text += 'a';
      if (op.kind == OpKind::reduce_scatter) text += 'r';
      if (op.role != Role::compute) continue;
      for (const AccessedTensor& access : graph.accesses_of(op)) {
        const std::uint32_t storage = graph.at(access.tensor).storage.row();
        if (graph.storages[storage].cause != Cause::unsharded_parameter) continue;
        if (seen.insert(storage).second) text += std::to_string(seen.size() - 1);
      }
    }
  return text;
}

}  // namespace

TEST_CASE("Thunder's ZeRO-3 has three gathers in flight in forward and in backward") {
  const Graph graph = thunder(Strategy::thunder_zero3, ThunderBucketing::none);
  CHECK(order(graph, Phase::forward) == "aaa0a1a2a345");
  // The embedding's backward reads no parameter.
  // The head's weight gradient needs no weight.
  CHECK(order(graph, Phase::backward) == "raaa0ra1ra2r3r4r");
}

TEST_CASE("Thunder's ZeRO-2 gathers everything first and nothing again") {
  const Graph graph = thunder(Strategy::thunder_zero2, ThunderBucketing::none);
  CHECK(order(graph, Phase::forward) == "aaaaaa012345");
  const std::string backward = order(graph, Phase::backward);
  CHECK(backward.find('a') == std::string::npos);
  CHECK(std::count(backward.begin(), backward.end(), 'r') == 6);
}

TEST_CASE("Thunder's block buckets gather and reduce a block as one") {
  const Graph graph = thunder(Strategy::thunder_zero3, ThunderBucketing::block);
  // Embedding, two blocks, head.
  const std::string forward = order(graph, Phase::forward);
  CHECK(std::count(forward.begin(), forward.end(), 'a') == 4);
  const std::string backward = order(graph, Phase::backward);
  CHECK(std::count(backward.begin(), backward.end(), 'r') == 4);
  CHECK(std::count(backward.begin(), backward.end(), 'a') == 3);
}
