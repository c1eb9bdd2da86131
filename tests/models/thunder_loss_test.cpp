// LitGPT's pretraining script under Thunder, against its traces run on meta tensors
// (data/thunder_loss.json).
#include <fstream>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/models/memory_walk.h"
#include "tests/models/simulated.h"
#include "tests/support/places.h"

namespace foregather::test {

namespace {

nlohmann::json recorded_losses() {
  std::ifstream file(source_dir() + "/tests/oracles/data/thunder_loss.json");
  return nlohmann::json::parse(file);
}

LiveStep tiny_llama(const std::string& ranks) {
  const bool is_alone = ranks == "1";
  return live_steps(
             sample("llama2_7b_fsdp1",
                    {"model.config=" + source_dir() + "/tests/models/litgpt_tiny_llama.json",
                     "train.micro_batch=4", "train.seq_len=2048", "train.precision=bf16",
                     "train.activation_checkpointing=none", "train.compile=thunder",
                     "train.repeat_kv=true", "train.logits=fp32", "parallel.reduce_dtype=bf16",
                     std::string("parallel.strategy=") + (is_alone ? "ddp" : "thunder_zero2"),
                     "parallel.world_size=" + ranks})
                 .graph)
      .steady;
}

Bytes without_states(const LiveNow& live) {
  return live.of(Cause::activation) + live.of(Cause::temporary);
}

}  // namespace

TEST_CASE(
    "the loss of LitGPT's script takes four fp32 logits under Thunder, and its FSDP keeps "
    "all parameters") {
  const nlohmann::json oracle = recorded_losses();
  for (const auto& [version, row] : oracle.items())
    for (const nlohmann::json& run : row["runs"]) {
      const std::string ranks = std::to_string(run["ranks"].get<int>());
      CAPTURE(version, ranks);
      const LiveStep step = tiny_llama(ranks);
      Bytes between = without_states(step.after_forward);
      Bytes peak = without_states(step.peak_of_passes);
      if (ranks != "1") {
        between += step.after_forward.of(Cause::unsharded_parameter);
        peak += step.peak_of_passes.of(Cause::unsharded_parameter);
      }
      // Left out: sines and cosines in fp32, expanded to all heads.
      const Bytes tables = 2 * 4 * 32 * 2048 * 64 * 4;
      const auto is_near = [&](Bytes ours, Bytes theirs) {
        CAPTURE(ours, theirs);
        CHECK(ours > (theirs - tables) / 1000 * 995);
        CHECK(ours < (theirs - tables) / 1000 * 1005);
      };
      is_near(between, run["between"]["bytes"]);
      is_near(peak, run["backward_peak"]["bytes"]);
    }
}

}  // namespace foregather::test
