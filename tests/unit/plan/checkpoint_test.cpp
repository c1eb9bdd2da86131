// What checkpoints keep, and what they compute again.
#include <algorithm>
#include <utility>

#include <catch2/catch.hpp>

#include "core/plan/checkpoint.h"
#include "tests/unit/plan/model_live_bytes.h"
#include "tests/unit/plan/small_model.h"

namespace foregather::test {
namespace {

using namespace plan;

// Of the recomputation of 3 blocks: how often it runs the down projection, and the ones before.
std::pair<std::int64_t, std::int64_t> recomputed(const std::string& strategy,
                                                 const std::vector<std::string>& more) {
  std::vector<std::string> sets{"parallel.strategy=" + strategy,
                                "train.activation_checkpointing=full"};
  if (strategy != "single") sets.emplace_back("parallel.world_size=4");
  sets.insert(sets.end(), more.begin(), more.end());
  const ModelConfig config = config_read(
      R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 3,
 "num_attention_heads": 4, "intermediate_size": 160, "vocab_size": 100})");
  const Graph graph = lowered_step(config, sets);
  const auto count = [&](std::int64_t k, std::int64_t n) {
    return std::ranges::count_if(graph.ops, [&](const Op& op) {
      const Cost& cost = graph.costs[op.cost.row()];
      return op.phase == Phase::recompute && cost.kind == OpKind::gemm && cost.k == k &&
             cost.n == n;
    });
  };
  return {count(160, 64), count(64, 160)};
}

}  // namespace

TEST_CASE("selective checkpointing keeps attention and every second matmul") {
  const Tape block = build_model(sample("llama3_8b"), bf16_train(1, 256)).tapes[1];
  std::vector<std::string> kept;
  for (const TapeOp& op : block.forward)
    if (op.keep_under_selective) kept.push_back(block.values[op.writes.front()].name);
  CHECK(kept == std::vector<std::string>{"query", "value", "attention", "mlp gate", "mlp out"});
  // A linear with bias is aten.addmm, which torchtitan's list does not have.
  const Tape gpt2 = build_model(sample("gpt2"), bf16_train(1, 256)).tapes[1];
  for (const TapeOp& op : gpt2.forward)
    CHECK(op.keep_under_selective == (op.cost.kind == OpKind::attention));
}

TEST_CASE("full checkpointing recomputes all but the last projection") {
  const Tape block = build_model(sample("llama3_8b"), bf16_train(1, 256)).tapes[1];
  const SavedValues saved = saved_values(block, SavePolicy::full);
  CHECK(saved.saved_bytes == 0);
  CHECK(saved.saved[block.input]);
  // Early stop: down projection and residual add are not run again.
  REQUIRE(saved.recompute.size() == block.forward.size() - 2);
  for (std::size_t i = 0; i < saved.recompute.size(); ++i) CHECK(saved.recompute[i] == i);
  CHECK(saved_values(block, SavePolicy::whole).recompute.size() == block.forward.size());
  const SavedValues selective = saved_values(block, SavePolicy::selective_op);
  CHECK(selective.recompute.size() == block.forward.size() - 2 - 4);
  for (const std::uint32_t index : selective.recompute)
    CHECK_FALSE(block.forward[index].keep_under_selective);
}

TEST_CASE("a compiled block keeps only what its backward or what it recomputes reads") {
  Train train = bf16_train(1, 256);
  const auto kept_bytes = [&](Compile compile) {
    train.compile = compile;
    const Tape block = build_model(sample("llama3_8b"), train).tapes[1];
    return saved_values(block, SavePolicy::selective_op).saved_bytes;
  };
  // The list names the down projection, whose output only the residual add reads.
  const Bytes down = 256 * 4096 * 2;
  CHECK(kept_bytes(Compile::none) - kept_bytes(Compile::per_block) == down);
}

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
