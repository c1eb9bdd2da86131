// A unit of the head ends before the loss, whoever calls the loss.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>
#include <catch2/catch.hpp>

#include "core/plan/build_ends.h"
#include "core/plan/lower.h"
#include "tests/unit/plan/model_live_bytes.h"
#include "tests/unit/plan/toy_model.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

/// Gathers by unit and where the loss is computed, in the order of a steady step.
std::vector<std::string> gathers_and_loss(Strategy strategy, bool loss_in_call,
                                          std::optional<bool> reshards = true) {
  Workload workload = toy_workload(4);
  workload.parallel.strategy = strategy;
  workload.parallel.wrap = Wrap::block_embed_head;
  workload.parallel.reshard_after_forward = reshards;
  workload.train.loss_in_call = loss_in_call;
  ModelConfig config = sample("tiny_llama");
  config.tied_embeddings = false;
  const Result<Graph> graph = lower(build_model(config, workload.train), workload);
  REQUIRE(graph);
  std::vector<std::string> order;
  for (const Action& action : graph->programs[0].threads[0].actions(Section::body)) {
    if (action.kind != ActionKind::launch) continue;
    const Op& op = graph->ops[action.a];
    const std::string scope(graph->text(graph->at(op.scope).name));
    if (op.role == Role::gather) order.push_back("gather " + scope);
    if (op.kind == OpKind::cross_entropy) order.push_back("loss");
  }
  for (const HostThread& thread : graph->programs[0].threads)
    for (const Action& action : thread.actions(Section::body))
      if (&thread != &graph->programs[0].threads[0] && action.kind == ActionKind::launch) {
        const Op& op = graph->ops[action.a];
        if (op.role == Role::gather)
          order.push_back("backward gather " + std::string(graph->text(graph->at(op.scope).name)));
        if (op.kind == OpKind::cross_entropy) order.emplace_back("backward loss");
      }
  return order;
}

}  // namespace

TEST_CASE("units of the ends are named as PyTorch names lists of modules") {
  const auto units = [](const ModelConfig& config) {
    Workload workload = toy_workload(2);
    workload.parallel.wrap = Wrap::block_embed_head;
    const auto graph = lower(build_model(config, workload.train), workload);
    REQUIRE(graph);
    std::vector<std::pair<std::string, std::int64_t>> found;
    for (const Unit& unit : graph->units)
      if (const std::string scope(graph->text(graph->at(unit.scope).name));
          scope.find(".layers.") == std::string::npos && scope.find(".h.") == std::string::npos)
        found.emplace_back(scope, unit.parameters);
    return found;
  };
  using Units = std::vector<std::pair<std::string, std::int64_t>>;
  ModelConfig llama = sample("tiny_llama");
  llama.tied_embeddings = false;
  const std::int64_t table = llama.vocab * llama.hidden;
  CHECK(units(llama) ==
        Units{{"model.embed_tokens", table}, {"model.norm, lm_head", table + llama.hidden}});
  llama.tied_embeddings = true;
  CHECK(units(llama) == Units{{"model.embed_tokens, model.norm, lm_head", table + llama.hidden}});
  const ModelConfig gpt2 = sample("gpt2");
  CHECK(units(gpt2) == Units{{"transformer.wte, transformer.wpe, transformer.ln_f, lm_head",
                              (gpt2.vocab + gpt2.max_positions + 2) * gpt2.hidden}});
}

TEST_CASE("the head's unit is gathered again behind the loss's backward") {
  for (const Strategy strategy : {Strategy::fsdp1, Strategy::fsdp2}) {
    const std::vector<std::string> inside = gathers_and_loss(strategy, true);
    CHECK(inside == gathers_and_loss(strategy, false));
    const auto loss = std::ranges::find(inside, "backward loss");
    REQUIRE(loss != inside.end());
    CHECK(std::ranges::none_of(inside.begin(), loss, [](const std::string& what) {
      return what.starts_with("backward gather");
    }));
    CHECK(std::ranges::any_of(loss, inside.end(), [](const std::string& what) {
      return what.starts_with("backward gather");
    }));
  }
}

TEST_CASE("by default FSDP2 keeps the head's unit, whose backward comes next") {
  const auto backward_gathers = [](std::optional<bool> reshards) {
    std::vector<std::string> order = gathers_and_loss(Strategy::fsdp2, false, reshards);
    std::erase_if(order, [](const std::string& what) { return !what.starts_with("backward g"); });
    return order;
  };
  std::vector<std::string> all = backward_gathers(true);
  REQUIRE(all.size() > 1);
  all.erase(all.begin());
  CHECK(backward_gathers({}) == all);
  CHECK(backward_gathers(false).empty());
}
