// What is said of keys that have no effect.
#include <catch2/catch.hpp>

#include "core/plan/module_tree.h"
#include "core/plan/workload_keys.h"
#include "core/plan/workload_warnings.h"
#include "tests/unit/workload/good_workload.h"

using namespace foregather;
using namespace foregather::plan;
using test::good;
using test::Sets;

TEST_CASE("a key without effect is named, with the strategies that it belongs to") {
  const std::string file = "[parallel]\nlimit_all_gathers = true\n";
  CHECK(good(file, {"parallel.strategy=fsdp1"}).warnings.empty());
  CHECK(good(file).warnings ==
        Sets{"dir/w.toml:4:1: parallel.limit_all_gathers has no effect with fsdp2: it belongs to "
             "fsdp1"});
  CHECK(
      good("", {"parallel.strategy=ddp", "parallel.wrap=block"}).warnings ==
      Sets{"--set parallel.wrap=block: parallel.wrap has no effect with ddp: it belongs to fsdp1, "
           "fsdp2"});
  CHECK(
      good("", {"parallel.strategy=zero3", "parallel.thunder_bucketing=block"}).warnings ==
      Sets{"--set parallel.thunder_bucketing=block: parallel.thunder_bucketing has no effect with "
           "zero3: it belongs to thunder_zero2, thunder_zero3"});
}

TEST_CASE("fp32 adapters are reduced as they are, whatever parallel.reduce_dtype says") {
  const Sets lora{"parallel.strategy=fsdp1", "train.trainable=lora", "train.precision=bf16",
                  "parallel.reduce_dtype=bf16"};
  CHECK(good("", lora).warnings ==
        Sets{"--set parallel.reduce_dtype=bf16: parallel.reduce_dtype has no effect: it needs "
             "train.lora_fp32 = false: fp32 adapters are reduced as they are"});
  Sets narrow = lora;
  narrow.emplace_back("train.lora_fp32=false");
  CHECK(good("", narrow).warnings.empty());
}

TEST_CASE("reentrant checkpoints are where the warnings say that they have an effect") {
  const std::string asked = "parallel.reentrant_checkpoints=true";
  const std::string fsdp1 = "parallel.strategy=fsdp1", full = "train.activation_checkpointing=full";
  const auto has = [](const Sets& sets) { return good("", sets).parallel.reentrant_checkpoints; };
  CHECK(has({asked, fsdp1, full}));
  for (const Sets& sets : {Sets{asked, full},
                           {asked, full, "parallel.strategy=zero3"},
                           {asked, fsdp1},
                           {asked, fsdp1, "train.activation_checkpointing=selective:2"},
                           {asked, fsdp1, full, "train.compile=per-block"}}) {
    CAPTURE(sets.back());
    CHECK(good("", sets).warnings.size() == 1);
    CHECK_FALSE(has(sets));
  }
}

TEST_CASE("each key warns under the strategies that do not read it, and no other") {
  for (const WorkloadKey& key : workload_keys()) {
    for (std::size_t s = 0; s < strategy_names().size(); ++s) {
      Workload workload;
      workload.parallel.strategy = static_cast<Strategy>(s);
      workload.train.grad_accum = 2;
      workload.parallel.forward_prefetch = true;
      workload.sources.insert_or_assign(std::string(key.name), KeySource{});
      const bool belongs = (key.strategies & set_of(workload.parallel.strategy)) != 0;
      const bool holds = key.needs.holds == nullptr || key.needs.holds(workload);
      CAPTURE(key.name, strategy_names()[s]);
      CHECK(workload_warnings(workload).empty() == (belongs && holds));
    }
  }
}

TEST_CASE("a key that the loss or the strategy does not read is named") {
  const auto warned = [](const Sets& sets) { return good("", sets).warnings.size(); };
  const std::string chunks = "train.loss_chunks=8";
  CHECK(good("", {chunks, "train.compile_loss=true"}).warnings ==
        Sets{"--set train.compile_loss=true: train.compile_loss has no effect: it needs "
             "train.loss_chunks = 1"});
  CHECK(warned({chunks, "train.logits_chunks=8"}) == 1);
  CHECK(warned({chunks, "train.logits=fp32-shifted"}) == 1);
  CHECK(warned({chunks, "train.logits=narrow"}) == 0);
  CHECK(warned({"train.logits_chunks=8", "train.logits=fp32-shifted"}) == 0);
  for (const std::string strategy : {"zero2", "zero3", "deepcompile"})
    CHECK(warned({"parallel.strategy=" + strategy, "train.clip_grad_norm=false"}) == 1);
  CHECK(warned({"train.clip_grad_norm=false"}) == 0);
  CHECK(warned({"parallel.strategy=thunder_zero3", "train.compile=full"}) == 1);
  CHECK(warned({"parallel.strategy=thunder_zero2", "train.compile_loss=true"}) == 1);
  CHECK(warned({"parallel.offload=all", "train.optimizer_impl=fused"}) == 1);
  CHECK(warned({"parallel.strategy=zero3", "parallel.offload=parameters",
                "train.optimizer_impl=fused"}) == 0);
  CHECK(warned({"train.attention=eager", "train.repeat_kv=true"}) == 1);
}

TEST_CASE("a key is named where the model has nothing that it is of") {
  const auto names = [](const std::string& set, const ModelConfig& model) {
    return !model_key_warnings(good("", {set}), model).empty();
  };
  const ModelConfig llama = [] {
    ModelConfig model;
    model.heads = 8;
    model.kv_heads = 2;
    return model;
  }();
  ModelConfig encoder = llama;
  encoder.kv_heads = 8;
  encoder.causal = false;
  encoder.norm = ModelConfig::Norm::layer;
  encoder.positions = ModelConfig::Positions::learned;
  encoder.head = ModelConfig::Head::masked_language_model;
  for (const std::string set :
       {"train.loss_chunks=8", "train.logits_chunks=8", "train.logits=fp32",
        "train.complex_rotary=true", "train.repeat_kv=true", "train.fused_rms_norm=false"}) {
    CAPTURE(set);
    CHECK_FALSE(names(set, llama));
    CHECK(names(set, encoder));
  }
  ModelConfig olmo = encoder;
  olmo.norm = ModelConfig::Norm::rms_wide;
  CHECK_FALSE(names("train.fused_rms_norm=false", olmo));
  ModelConfig tree;
  const auto of = [](TreeNode::Kind kind, std::vector<TreeNode> children = {}) {
    TreeNode node;
    node.kind = kind;
    node.children = std::move(children);
    return node;
  };
  using Kind = TreeNode::Kind;
  const auto set_tree = [&](Kind norm) {
    ModuleTree modules;
    modules.children = {of(Kind::linear), of(Kind::container, {of(norm)})};
    tree.tree = std::make_shared<const ModuleTree>(std::move(modules));
  };
  set_tree(Kind::rms_norm);
  CHECK_FALSE(names("train.fused_rms_norm=false", tree));
  set_tree(Kind::layer_norm);
  CHECK(names("train.fused_rms_norm=false", tree));
  ModelConfig vision = encoder;
  vision.image.size = 224;
  for (const std::string set :
       {"train.seq_len=512", "train.held_outputs=logits", "train.compile_loss=true"}) {
    CAPTURE(set);
    CHECK_FALSE(names(set, encoder));
    CHECK(names(set, vision));
  }
  ModelConfig towers = encoder;
  towers.towers = {llama};
  CHECK_FALSE(names("train.complex_rotary=true", towers));
  ModelConfig partly = llama;
  partly.head_dim = 64;
  partly.rotary_dim = 16;
  CHECK(names("train.complex_rotary=true", partly));
  CHECK(
      model_key_warnings(
          good("", {"train.loss_chunks=100", "train.micro_batch=3", "train.seq_len=33"}), llama) ==
      Sets{"--set train.loss_chunks=100: train.loss_chunks = 100, of 99 tokens: each is a part"});
  CHECK(model_key_warnings(
            good("", {"train.loss_chunks=99", "train.micro_batch=3", "train.seq_len=33"}), llama)
            .empty());
  CHECK(model_key_warnings(good("", {"train.repeat_kv=true"}), encoder) ==
        Sets{"--set train.repeat_kv=true: train.repeat_kv has no effect: it needs a model with "
             "grouped-query attention"});
}

TEST_CASE("a key that lacks what it needs is named") {
  CHECK(good("[train]\nmomentum = 0.5\n").warnings ==
        Sets{"dir/w.toml:4:1: train.momentum has no effect: it needs train.optimizer = sgd"});
  CHECK(good("[train]\nmomentum = 0.5\noptimizer = \"sgd\"\n").warnings.empty());
  const std::string fused = "[train]\noptimizer_impl = \"fused\"\noptimizer_state = \"bf16\"\n";
  CHECK(good(fused).warnings ==
        Sets{"dir/w.toml:4:1: train.optimizer_impl has no effect: it needs an optimizer on the "
             "device and train.optimizer_state = master"});
  CHECK(good("[train]\nlora_rank = 4\n").warnings.size() == 1);
  CHECK(good("[train]\nlora_rank = 4\ntrainable = \"lora\"\n").warnings.empty());
  CHECK(good("", {"cluster.fabric=ib_ndr"}).warnings ==
        Sets{"--set cluster.fabric=ib_ndr: cluster.fabric has no effect: it needs more than one "
             "node"});
  CHECK(good("", {"cluster.fabric=ib_ndr", "cluster.nodes=2"}).warnings.empty());
  CHECK(good("[train]\nno_sync = true\n").warnings.size() == 1);
  CHECK(good("[train]\nno_sync = true\ngrad_accum = 2\n").warnings.empty());
}

TEST_CASE("targets of adapters are not names of parameters") {
  const Workload named = good("[train]\ntrainable = [\"norm\"]\nlora_targets = [\"q_proj\"]\n");
  CHECK(named.train.trainable.names == Sets{"norm"});
  CHECK(named.warnings.size() == 1);
}

TEST_CASE("fp16 says that the gradient scaler is left out") {
  CHECK(good("").warnings.empty());
  const Workload workload = good("[train]\nprecision = \"fp16-mixed\"\n");
  REQUIRE(workload.warnings.size() == 1);
  CHECK(workload.warnings.front().starts_with("dir/w.toml:4:1: training in fp16 scales the loss"));
}
