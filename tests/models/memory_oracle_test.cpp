// Live bytes of our FSDP2 schedule against PyTorch's FSDPMemTracker (data/fsdp2_memory.json), at
// instants and at the peaks, by category. Single blocks (data/block_memory.json, and what autograd
// saves in fsdp2_memory.json) are compared in tests/unit/plan/model_oracles.cpp.
//
// Categories of the tracker and ours:
//
//   Sharded Param                parameter_shard
//   Unsharded Param              unsharded_parameter
//   Sharded Grad                 reduced_gradient
//   All Gather, Reduce Scatter   communication_buffer, cast_copy
//   OptState                     optimizer_state; during the optimizer also its temporaries, which
//                                the tracker counts with the states
//   Activation, Temp, Inputs,    activation, temporary, gradient: the tracker calls Temp what the
//   Unsharded Grad               backward makes, be it a parameter's gradient, an activation's, or
//                                a recomputed activation, which we tell apart
//
// What differs, all of it in the model and none in FSDP2:
//
//   loss             Our root computes the loss, as Hugging Face's models do; the recorded loop
//                    does it outside. So here the last all-gather's output is still held while the
//                    loss is computed, and the first gather of the backward is issued before the
//                    loss's backward, not after: up to 5.2 % more, and with much activation memory
//                    the peak lies there instead of in the last block (kPeaksAtTheLoss).
//   rotary tables    made once by our model, in each block by the recorded one: 0.4 % less.
//   eager GPT-2      the recorded model takes Llama's softmax in fp32; Hugging Face's GPT-2, which
//                    we follow, keeps bf16 (block_memory.json): kFp32Softmax.
//   scalars          AdamW's `step` tensors (4 bytes a parameter, on the CPU here and on a GPU).
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <set>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/plan/lower.h"
#include "core/plan/workload_toml.h"
#include "tests/models/memory_walk.h"
#include "tests/models/oracle.h"
#include "tests/support/places.h"

namespace foregather::test {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr double kTotalTolerance = 0.06;
constexpr double kInstantTolerance = 0.01;
/// Of a category at the peak, plus 1 % of the total for those that are nearly empty.
constexpr double kCategoryTolerance = 0.10;
constexpr double kNearlyEmpty = 0.01;

/// MODEL WORLD RESHARD DTYPE OPTION of cases whose largest total is at the loss for us.
const std::set<std::string> kPeaksAtTheLoss{
    "gpt2_14m 4 false f32",        "gpt2_14m 4 false bf16",  "gpt2_14m 8 false f32",
    "gpt2_14m 8 false bf16",       "llama_15m 4 false f32",  "llama_15m 4 false bf16",
    "llama_15m 8 false f32",       "llama_15m 8 false bf16", "llama_15m 8 true bf16",
    "llama_15m 4 true bf16 eager",
};
const std::string kFp32Softmax = "gpt2_14m 4 true bf16 eager";

std::string name_of(const OrderedJson& one) {
  const OrderedJson& settings = one.at("settings");
  return fmt::format("{} {} {} {}{}{}", one.at("model").get<std::string>(),
                     one.at("world_size").get<int>(), settings.at("reshard_after_forward").dump(),
                     settings.at("param_dtype").is_null() ? "f32" : "bf16",
                     settings.contains("attention") ? " eager" : "",
                     settings.contains("checkpoint") ? " checkpoint" : "");
}

Graph lowered_like(const OrderedJson& tracker, const OrderedJson& one) {
  const std::string model_name = one.at("model");
  const plan::ModelConfig config =
      config_of_json(tracker.at("models").at(model_name).at("config").dump());
  const OrderedJson& settings = one.at("settings");
  plan::Workload workload;
  plan::Train& train = workload.train;
  train.micro_batch = tracker.at("batch").at(0);
  train.seq_len = tracker.at("batch").at(1);
  train.compute = settings.at("param_dtype").is_null() ? DType::f32 : DType::bf16;
  train.clip_grad_norm = false;
  train.dropout = false;
  train.attention = settings.contains("attention") ? plan::Attention::eager : plan::Attention::sdpa;
  if (settings.contains("checkpoint")) train.checkpointing = plan::Checkpointing::full;
  plan::Parallel& parallel = workload.parallel;
  parallel.world_size = one.at("world_size");
  parallel.param_dtype = train.compute;
  parallel.reshard_after_forward = settings.at("reshard_after_forward").get<bool>();
  REQUIRE(plan::resolve_workload(workload, config));
  const plan::Model model = plan::build_model(config, train, recorded_implementation());
  Result<Graph> graph = plan::lower(model, workload);
  REQUIRE(graph);
  return std::move(*graph);
}

Bytes sum(const OrderedJson& recorded, std::initializer_list<const char*> categories) {
  Bytes bytes = 0;
  for (const char* category : categories) bytes += recorded.value(category, Bytes{0});
  return bytes;
}

void check_total(const char* what, const LiveNow& ours, const OrderedJson& recorded,
                 double tolerance) {
  INFO(what);
  CHECK(static_cast<double>(ours.total) == Approx(sum(recorded, {"Total"})).epsilon(tolerance));
}

void check_categories(const char* what, const LiveNow& ours, const OrderedJson& recorded,
                      bool in_optimizer) {
  const auto total = static_cast<double>(sum(recorded, {"Total"}));
  const Bytes temporary = ours.of(Cause::temporary);
  const auto check = [&](const char* category, Bytes mine, Bytes theirs) {
    INFO(what << ", " << category);
    CHECK(std::abs(static_cast<double>(mine - theirs)) <=
          kCategoryTolerance * static_cast<double>(theirs) + kNearlyEmpty * total);
  };
  check("sharded parameters", ours.of(Cause::parameter_shard), sum(recorded, {"Sharded Param"}));
  check("unsharded parameters", ours.of(Cause::unsharded_parameter),
        sum(recorded, {"Unsharded Param"}));
  check("sharded gradients", ours.of(Cause::reduced_gradient), sum(recorded, {"Sharded Grad"}));
  check("communication", ours.of(Cause::communication_buffer) + ours.of(Cause::cast_copy),
        sum(recorded, {"All Gather", "Reduce Scatter"}));
  check("optimizer", ours.of(Cause::optimizer_state) + (in_optimizer ? temporary : 0),
        sum(recorded, {"OptState"}));
  check("activations and gradients",
        ours.of(Cause::activation) + ours.of(Cause::gradient) + (in_optimizer ? 0 : temporary),
        sum(recorded, {"Activation", "Temp", "Inputs", "Unsharded Grad"}));
}

void check_step(const LiveStep& ours, const OrderedJson& recorded, const std::string& name) {
  check_total("before", ours.before, recorded.at("before"), kInstantTolerance);
  check_total("after backward", ours.after_backward, recorded.at("after_backward"),
              kInstantTolerance);
  check_total("peak of the optimizer", ours.peak_of_optimizer, recorded.at("peak_optimizer"),
              kInstantTolerance);
  check_categories("peak of the optimizer", ours.peak_of_optimizer, recorded.at("peak_optimizer"),
                   true);
  if (name == kFp32Softmax) {
    // 4 blocks × 2 sequences × 8 heads × 256² fp32 scores; peaks lie elsewhere.
    LiveNow with_scores = ours.after_forward;
    with_scores.total += Bytes{4} * 2 * 8 * 256 * 256 * 4;
    check_total("after forward", with_scores, recorded.at("after_forward"), kInstantTolerance);
    return;
  }
  check_total("after forward", ours.after_forward, recorded.at("after_forward"), kInstantTolerance);
  check_categories("after forward", ours.after_forward, recorded.at("after_forward"), false);
  const OrderedJson& peak = recorded.at("peak_forward_backward");
  check_total("peak", ours.peak_of_passes, peak, kTotalTolerance);
  if (!kPeaksAtTheLoss.contains(name)) check_categories("peak", ours.peak_of_passes, peak, false);
}

}  // namespace

TEST_CASE("FSDP2's live bytes are FSDPMemTracker's") {
  std::ifstream file(source_dir() + "/tests/oracles/data/fsdp2_memory.json");
  const OrderedJson tracker = OrderedJson::parse(file).at("tracker");
  std::size_t compared = 0;
  for (const OrderedJson& one : tracker.at("cases")) {
    const std::string name = name_of(one);
    INFO(name);
    const LiveSteps ours = live_steps(lowered_like(tracker, one));
    check_step(ours.first, one.at("first_step"), name);
    check_step(ours.steady, one.at("steady_step"), name);
    ++compared;
  }
  CHECK(compared == 20);
}

}  // namespace foregather::test
