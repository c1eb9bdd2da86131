// What every pass keeps, on every kind of schedule.
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <catch2/catch.hpp>

#include "core/ir/dump.h"
#include "sim/engine/bounds.h"
#include "sim/engine/engine.h"
#include "sim/memory/memory_bound.h"
#include "sim/passes/registry.h"
#include "tests/fixtures/fixtures.h"
#include "tests/support/places.h"
#include "tests/support/random_graph.h"
#include "tests/support/repetitions.h"
#include "tests/unit/passes/schedules.h"

using namespace foregather;
using namespace foregather::test;

namespace {

struct Case {
  const char* text;
  bool is_idempotent;  ///< the docs of those that are not say so
  bool keeps_ops;      ///< every op key is still there, but for those of regions taken apart
};

const std::vector<Case> kCases{
    {"scale=links:2", false, true},
    {"scale=gemm:3", false, true},
    {"scale=host:2", false, true},
    {"scale=scope:*1*:2", false, true},
    {"scale=op:*gemm/1:2", false, true},
    {"ideal", true, true},
    {"delay=after-loss:1ms", false, true},
    {"delay=before-reduction:300us", false, true},
    {"delay=before-free:20us", false, true},
    {"delay=rank:0:2ms", false, true},
    {"delay=scope:*:7us", false, true},
    {"dedup-shared-params", true, false},
    {"fuse-downcast", true, true},
    {"prefetch=none", true, true},
    {"sort-waits", false, true},
    {"sort-communication", true, true},
    {"in-flight=2", true, true},
    {"prefetch=backward-pre", true, true},
    {"prefetch=backward-post", true, true},
    {"forward-prefetch", true, true},
    {"limit-all-gathers=none", true, true},
    {"reshard=always", true, true},
    {"reshard=never", true, false},
    {"reshard=2", true, false},
    {"rematerialize-all-gather", true, true},
    {"bucket=layer", true, true},
    {"bucket=block", true, true},
    {"bucket=4MiB", true, true},
    {"limit-all-gathers=1", true, true},
    {"limit-all-gathers=3", true, true},
    {"fuse-downcast,prefetch_dtype=shard", true, true},
    {"fusion=none", true, true},
    {"fusion=vertical", false, true},
    {"fusion=horizontal", false, true},
    {"fusion=consecutive", true, true},
    {"fusion=vertical,memory=ignore", true, true},
    {"fusion=horizontal,memory=ignore", true, true},
    {"fusion=consecutive,memory=ignore", true, true},
    {"recompute=full", true, true},
    {"order=program", true, true},
    {"order=depth-first", true, true},
    {"order=list", true, true},
    {"order=memory", true, true},
    {"order=fast-free", false, true},
    {"order=fast-free,rule=2025", false, true},
    {"prefetch=budget", false, true},
    {"selective-gather=40KiB", false, false},
    {"selective-gather", false, false},
};

// Origins stay as rows when what was made of them goes; launched ops are what counts.
void check_laws(const Graph& before, const Case& law) {
  CAPTURE(law.text);
  REQUIRE(problems(before) == "");
  std::vector<sim::PassNote> notes;
  const Graph after = passed(before, {law.text}, &notes);
  REQUIRE(notes.size() == 1);
  CHECK_FALSE(notes[0].did.empty());
  CHECK(problems(after) == "");
  const bool fuses = std::string_view(law.text).starts_with("fusion=");
  if (!std::string_view(law.text).starts_with("recompute="))  // see recompute_test.cpp
    CHECK(
        (fuses ? all_flops(after) == all_flops(before) : body_flops(after) == body_flops(before)));
  auto old_keys = keys(before);
  const auto new_keys = keys(after);
  CHECK(std::adjacent_find(new_keys.begin(), new_keys.end()) == new_keys.end());
  if (!notes[0].changed) CHECK(new_keys == old_keys);
  if (fuses)
    std::erase_if(old_keys, [](const std::string& key) { return key.find("/fused/") != key.npos; });
  if (law.keeps_ops)
    CHECK(std::includes(new_keys.begin(), new_keys.end(), old_keys.begin(), old_keys.end()));
  if (law.is_idempotent) CHECK(dump(passed(after, {law.text})) == dump(after));
}

// Prices of 10 µs an op and 1 µs an action.
std::vector<sim::CostTable> flat_prices(const Graph& graph) {
  sim::CostTable table;
  table.prices.resize(graph.costs.size());
  for (sim::Price& price : table.prices) {
    price.duration = 10 * kMicrosecond;
    price.host = kMicrosecond;
  }
  table.sources = {"test"};
  std::uint32_t hardware = 0;
  for (const RankClass& rank_class : graph.classes)
    hardware = std::max(hardware, rank_class.hardware);
  return std::vector<sim::CostTable>(hardware + 1, table);
}

void check_run(const Graph& graph) {
  const auto prices = flat_prices(graph);
  const auto simulation = sim::simulate(graph, prices, {});
  REQUIRE(simulation.has_value());
  for (std::size_t c = 0; c < graph.classes.size(); ++c) {
    const sim::ClassResult& result = simulation->classes[c];
    if (simulation->converged)
      CHECK(result.steady.time() >= sim::step_time_bounds(graph, graph.classes[c], prices).bound());
  }
}

}  // namespace

TEST_CASE("every pass has a case of the laws") {
  for (const sim::PassInfo* pass : sim::passes()) {
    CAPTURE(pass->name);
    CHECK(std::any_of(kCases.begin(), kCases.end(), [&](const Case& law) {
      const std::string_view text = law.text;
      return text.substr(0, text.find_first_of("=,")) == pass->name;
    }));
  }
}

TEST_CASE("every pass keeps the laws on every fixture") {
  for (const auto& [name, make] : all_fixtures())
    for (const Case& law : kCases) {
      CAPTURE(name);
      check_laws(make(), law);
      check_run(passed(make(), {law.text}));
    }
}

TEST_CASE("every pass keeps the laws on every sample") {
  const std::vector<std::pair<const char*, std::vector<std::string>>> samples{
      {"tiny_fsdp2", {"model.layers=3"}},
      {"tiny_fsdp2", {"model.layers=3", "train.grad_accum=2", "parallel.shard_size=2"}},
      {"gpt2_ddp", {"model.layers=3"}},
      {"llama2_7b_fsdp1", {"model.layers=3"}},
      {"llama2_7b_fsdp1", {"model.layers=3", "parallel.backward_prefetch=none"}},
      {"llama2_13b_lora", {"model.layers=2"}},
      {"llama3_8b_fsdp2", {"model.layers=3", "train.activation_checkpointing=full"}},
      {"llama3_70b_fsdp2", {"model.layers=2"}},
      {"gpt2_two_names", {"model.layers=2"}},
      {"mixtral_8x7b_zero3", {"model.layers=2"}},
      {"roberta_1gb_slow_network", {}},
      {"openvla_zero3", {"parallel.strategy=deepcompile", "model.layers=1,1,2"}},
      {"openvla_zero3",
       {"parallel.strategy=deepcompile", "model.layers=1,1,1", "train.grad_accum=2",
        "parallel.deepcompile_passes=none", "parallel.reduce_bucket_size=60000000"}},
      {"gpt2_ddp", {"model.layers=2", "parallel.strategy=deepcompile"}},
      {"llama2_7b_fsdp1",
       {"model.layers=2", "parallel.strategy=deepcompile", "parallel.param_dtype=bf16",
        "parallel.double_buffer=false", "train.activation_checkpointing=full",
        "parallel.symmetric_memory=true"}},
  };
  std::size_t tried = 0;
  for (const auto& [name, sets] : samples) {
    const Graph graph = sample_with(name, sets).graph;
    for (const Case& law : kCases) {
      if (kSanitized && tried++ % 5 != 0) continue;  // of each sample others
      CAPTURE(name);
      check_laws(graph, law);
      check_run(passed(graph, {law.text}));
    }
  }
}

TEST_CASE("every pass keeps the laws on Thunder's traces") {
  for (const char* name : {"thunder_mlp_zero3_forward.txt", "thunder_mlp_zero3_backward.txt"}) {
    const Graph graph = loaded(test::source_dir() + "/traces/samples/" + name, {}).graph;
    for (const Case& law : kCases) {
      CAPTURE(name);
      check_laws(graph, law);
      check_run(passed(graph, {law.text}));
    }
  }
}

TEST_CASE("fusion keeps the laws on what several versions of Thunder print") {
  const std::filesystem::path folder =
      std::filesystem::path(test::source_dir()) / "tests/oracles/data/thunder";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".txt") continue;
    CAPTURE(entry.path().string());
    const Graph graph = loaded(entry.path().string(), {}).graph;
    for (const Case& law : kCases)
      if (std::string_view(law.text).starts_with("fusion=")) check_laws(graph, law);
  }
}

TEST_CASE("every pass keeps the laws on random schedules") {
  rc::prop("random graphs", [] {
    const Graph graph = foregather::test::random_graph(*rc::gen::arbitrary<std::uint64_t>());
    for (const Case& law : kCases) check_laws(graph, law);
  });
}

TEST_CASE("passes compose in the order of the command line") {
  const Graph graph = sample_with("tiny_fsdp2", {"model.layers=2"}).graph;
  std::vector<std::string> all;
  for (const Case& law : kCases) all.emplace_back(law.text);
  const Graph once = passed(graph, all);
  CHECK(problems(once) == "");
  std::reverse(all.begin(), all.end());
  CHECK(problems(passed(graph, all)) == "");
}
