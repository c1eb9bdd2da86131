// Checkpoints that compute all of a block again.
#include <algorithm>
#include <utility>

#include <catch2/catch.hpp>

#include "core/plan/lower.h"
#include "core/plan/model.h"
#include "core/plan/workload_toml.h"

namespace foregather::test {
namespace {

using namespace plan;

// Of the recomputation of 3 blocks: how often it runs the down projection, and the one before.
std::pair<std::int64_t, std::int64_t> recomputed(const std::string& strategy,
                                                 const std::vector<std::string>& more) {
  std::vector<std::string> sets{"parallel.strategy=" + strategy,
                                "train.activation_checkpointing=full"};
  if (strategy != "single") sets.emplace_back("parallel.world_size=4");
  sets.insert(sets.end(), more.begin(), more.end());
  auto workload = parse_workload(
      "[model]\nmodel_type = \"llama\"\nhidden_size = 64\nnum_hidden_layers = 3\n"
      "num_attention_heads = 4\nintermediate_size = 160\nvocab_size = 100\n"
      "[train]\nmicro_batch = 2\nseq_len = 64\n",
      "w.toml", sets);
  if (!workload) FAIL(workload.error().text());
  const auto model = read_model(*workload);
  if (!model) FAIL(model.error().text());
  if (const Status resolved = resolve_workload(*workload, *model); !resolved)
    FAIL(resolved.error().text());
  const auto graph = lower(build_model(*model, *workload), *workload);
  if (!graph) FAIL(graph.error().text());
  const auto count = [&](std::int64_t k, std::int64_t n) {
    return std::ranges::count_if(graph->ops, [&](const Op& op) {
      const Cost& cost = graph->costs[op.cost.row()];
      return op.phase == Phase::recompute && cost.kind == OpKind::gemm && cost.k == k &&
             cost.n == n;
    });
  };
  return {count(160, 64), count(64, 160)};
}

}  // namespace

TEST_CASE("without early stop each strategy multiplies each block's last product again") {
  for (const char* strategy : {"single", "ddp", "fsdp1", "fsdp2", "zero2", "zero3"}) {
    CAPTURE(strategy);
    const auto [early, early_inputs] = recomputed(strategy, {});
    CHECK(early == 0);
    REQUIRE(early_inputs > 0);
    const auto [whole, inputs] = recomputed(strategy, {"train.early_stop=false"});
    CHECK(inputs == early_inputs);
    CHECK(2 * whole == inputs);  // gate and up
    CHECK(recomputed(strategy, {"train.early_stop=false", "train.compile=per-block"}).first == 0);
  }
}

}  // namespace foregather::test
