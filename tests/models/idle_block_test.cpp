// Vision towers whose features come from in front of their last block: that block runs for nobody.
#include <algorithm>
#include <string>
#include <vector>
#include <catch2/catch.hpp>

#include "tests/models/simulated.h"
#include "tests/support/places.h"

using namespace foregather;
using namespace foregather::test;

namespace {

Graph openvla(const std::vector<std::string>& sets) {
  auto schedule =
      tasks::load_schedule(source_dir() + "/traces/samples/openvla_zero3.toml", sets, {});
  REQUIRE(schedule.has_value());
  return std::move(schedule->graph);
}

// Of a steady step's ops that belong to a block of DINOv2.
std::size_t count(const Graph& graph, int block, Phase phase, OpKind kind) {
  const std::string path = "vision_tower_1.encoder.layer." + std::to_string(block);
  const std::vector<OpId> ops = body_ops(graph);
  return static_cast<std::size_t>(std::ranges::count_if(ops, [&](OpId id) {
    const Op& op = graph.at(id);
    const std::string_view scope = graph.text(graph.at(op.scope).name);
    const bool is_in = scope == path || scope.starts_with(path + ".");
    return is_in && op.phase == phase && op.kind == kind;
  }));
}

}  // namespace

TEST_CASE("the last block of a vision tower runs forward, and nothing of it backward") {
  for (const char* strategy : {"fsdp1", "fsdp2", "zero3", "zero2"})
    for (const char* checkpointing : {"none", "full"}) {
      CAPTURE(strategy, checkpointing);
      const Graph graph = openvla({std::string("parallel.strategy=") + strategy,
                                   std::string("train.activation_checkpointing=") + checkpointing});
      CHECK(count(graph, 2, Phase::forward, OpKind::gemm) ==
            count(graph, 1, Phase::forward, OpKind::gemm));
      CHECK(count(graph, 1, Phase::backward, OpKind::gemm) > 0);
      for (const Phase phase : {Phase::backward, Phase::recompute})
        for (const OpKind kind : {OpKind::gemm, OpKind::attention, OpKind::reduce_scatter})
          CHECK(count(graph, 2, phase, kind) == 0);
    }
}

// FSDP2's next block prefetches it all the same (a gather that nobody waits for); FSDP1 prefetches
// only what has a hook in the backward.
TEST_CASE("a block without a backward is gathered ahead by FSDP2 alone") {
  const auto gathers = [](const char* strategy, int block) {
    const Graph graph = openvla({std::string("parallel.strategy=") + strategy});
    return count(graph, block, Phase::backward, OpKind::all_gather);
  };
  CHECK(gathers("fsdp2", 1) == 1);
  CHECK(gathers("fsdp2", 2) == 1);
  CHECK(gathers("fsdp1", 1) == 1);
  CHECK(gathers("fsdp1", 2) == 0);
}

TEST_CASE("one compiled graph leaves out what nobody reads") {
  for (const char* set : {"parallel.strategy=deepcompile", "train.compile=full"}) {
    const Graph graph = openvla({"parallel.strategy=fsdp2", set});
    CHECK(count(graph, 1, Phase::forward, OpKind::gemm) > 0);
    CHECK(count(graph, 2, Phase::forward, OpKind::gemm) == 0);
  }
  const Graph blocks = openvla({"parallel.strategy=fsdp2", "train.compile=per-block"});
  CHECK(count(blocks, 2, Phase::forward, OpKind::gemm) > 0);
}

TEST_CASE("what nobody uses is one flat parameter with what is trained") {
  const auto units = [](const char* original) {
    return openvla({"parallel.strategy=fsdp1", std::string("parallel.use_orig_params=") + original})
        .units.size();
  };
  CHECK(units("false") == units("true"));
}

TEST_CASE("copies that autocast made for a block without a backward end with the forward") {
  for (const char* set :
       {"parallel.strategy=ddp", "parallel.strategy=fsdp1,parallel.param_dtype=fp32",
        "parallel.strategy=fsdp2,parallel.param_dtype=fp32"}) {
    CAPTURE(set);
    const std::string text = set;
    const std::size_t comma = text.find(',');
    std::vector<std::string> sets{text.substr(0, comma)};
    if (comma != std::string::npos) sets.push_back(text.substr(comma + 1));
    const Graph graph = openvla(sets);
    std::vector<int> held(graph.storages.size());
    std::size_t copies = 0;
    for (const HostThread& thread : graph.programs.front().threads)
      for (const Action& action : thread.actions(Section::first)) {
        if (action.kind == ActionKind::free) --held[action.a];
        if (action.kind != ActionKind::alloc) continue;
        ++held[action.a];
        copies += graph.storages[action.a].cause == Cause::cast_copy ? 1 : 0;
      }
    CHECK(copies > 20);
    for (std::size_t s = 0; s < held.size(); ++s)
      if (graph.storages[s].cause == Cause::cast_copy) CHECK(held[s] == 0);
  }
}

// Each unshard may take one of the limiter's events out, each reshard puts one in: where a block
// that was not gathered would put one in, the queue would grow with each step.
TEST_CASE("FSDP1's limiter waits as often as it did in the step before") {
  const Graph graph = openvla({"parallel.strategy=fsdp1"});
  std::size_t waits = 0, reshards = 0;
  for (const HostThread& thread : graph.programs.front().threads)
    for (const Action& action : thread.actions(Section::body)) {
      waits += action.kind == ActionKind::host_wait_event ? 1 : 0;
      reshards += action.kind == ActionKind::record_stream &&
                          graph.storages[action.a].cause == Cause::unsharded_parameter
                      ? 1
                      : 0;
    }
  CHECK(waits == reshards);
}
