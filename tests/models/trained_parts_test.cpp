// Models of which a part is trained: what their strategies lower could run.
#include <catch2/catch.hpp>

#include "core/ir/validate.h"
#include "tests/models/simulated.h"

namespace foregather::test {

namespace {

using Settings = std::vector<std::string>;

std::string first_problem(const std::string& name, const Settings& sets) {
  const auto problems = validate(sample(name, sets).graph, 1);
  return problems.empty() ? "" : problems.front().message;
}

Settings operator+(Settings sets, const Settings& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

/// Two layers whose embedding and head are one weight.
const Settings kTied{"model.layers=2",       "model.n_embd=64", "model.n_head=2",
                     "model.vocab_size=101", "train.seq_len=8", "train.micro_batch=1"};

std::int64_t model_flops(const std::string& name, const Settings& sets) {
  return sample(name, sets).graph.model_flops_per_rank_step;
}

}  // namespace

TEST_CASE("under every strategy a model of which a part is trained could run") {
  const Settings variants{"parallel.strategy=single",
                          "parallel.strategy=ddp",
                          "parallel.strategy=zero2",
                          "parallel.strategy=zero3",
                          "parallel.strategy=deepcompile",
                          "parallel.strategy=fsdp1",
                          "parallel.strategy=fsdp1 parallel.backward_prefetch=post",
                          "parallel.strategy=fsdp1 parallel.backward_prefetch=none",
                          "parallel.strategy=fsdp1 parallel.sharding=shard_grad_op",
                          "parallel.strategy=fsdp2",
                          "parallel.strategy=fsdp2 train.grad_accum=2 "
                          "parallel.reshard_after_backward=false parallel.reshard_after_forward=2",
                          "parallel.strategy=fsdp2 parallel.reshard_after_forward=2"};
  for (const std::string& variant : variants)
    for (const char* trained : {"wte,embed", "lm_head", "attn", "norm,ln_", "lora"})
      for (const bool alone : {false, true}) {
        INFO(variant << ", trained: " << trained << (alone ? ", alone" : ""));
        Settings sets{std::string("train.trainable=") + trained, "train.lora_targets=all-linear"};
        for (std::size_t at = 0; at < variant.size();) {
          const std::size_t end = std::min(variant.find(' ', at), variant.size());
          sets.push_back(variant.substr(at, end - at));
          at = end + 1;
        }
        const bool single = variant == "parallel.strategy=single";
        const bool keeps_part = variant.find("forward=2") != std::string::npos;
        if (alone && (single || keeps_part)) continue;
        const int ranks = single || alone ? 1 : 4;
        const std::string many = std::to_string(ranks);
        sets = sets + Settings{"parallel.world_size=" + many, "cluster.gpus_per_node=" + many};
        CHECK(first_problem("tiny_fsdp2", sets) == "");
        CHECK(first_problem("gpt2_ddp", sets + kTied) == "");
      }
}

TEST_CASE("what autocast copies of a block without a backward goes after its forward") {
  CHECK(first_problem("tiny_fsdp2", {"parallel.strategy=fsdp1", "parallel.param_dtype=fp32",
                                     "train.trainable=lm_head"}) == "");
}

TEST_CASE("without use_orig_params FSDP1 wraps each trained module of a unit by itself") {
  const Settings variants{"parallel.backward_prefetch=pre",
                          "parallel.backward_prefetch=post",
                          "parallel.backward_prefetch=none",
                          "parallel.forward_prefetch=true",
                          "parallel.limit_all_gathers=false",
                          "parallel.sharding=shard_grad_op",
                          "parallel.sharding=no_shard",
                          "parallel.shard_size=2",
                          "parallel.wrap=model",
                          "parallel.param_dtype=fp32",
                          "parallel.offload=all",
                          "train.loss_in_call=false",
                          "train.compile=per-block"};
  for (const std::string& variant : variants)
    for (const char* trained : {"lm_head", "q_proj,lm_head", "o_proj", "norm", "lora"})
      for (const char* checkpointing : {"none", "full", "selective"}) {
        INFO(variant << ", trained: " << trained << ", checkpointing: " << checkpointing);
        const Settings sets{"parallel.strategy=fsdp1",
                            "parallel.use_orig_params=false",
                            "parallel.world_size=4",
                            "cluster.gpus_per_node=4",
                            "train.grad_accum=2",
                            "train.no_sync=true",
                            "train.lora_targets=all-linear",
                            std::string("train.trainable=") + trained,
                            std::string("train.activation_checkpointing=") + checkpointing,
                            variant};
        CHECK(first_problem("tiny_fsdp2", sets) == "");
        CHECK(simulated(sample("tiny_fsdp2", sets)).converged);
      }
}

TEST_CASE("forward prefetch gathers leaves in the order in which the forward comes to them") {
  const Settings sets{"parallel.strategy=fsdp1", "parallel.use_orig_params=false",
                      "train.trainable=norm,q_proj", "model.layers=2"};
  const auto gathered = [&](const char* ahead) {
    const auto graph =
        sample("tiny_fsdp2", sets + Settings{std::string("parallel.forward_prefetch=") + ahead})
            .graph;
    std::vector<std::uint32_t> units;
    for (const OpId id : body_ops(graph))
      if (const Op& op = graph.at(id); op.kind == OpKind::all_gather && op.phase == Phase::forward)
        units.push_back(op.unit.row());
    return units;
  };
  CHECK(gathered("true") == gathered("false"));
}

TEST_CASE("forward prefetch ends the backward of a leaf with that of the unit before it") {
  const auto gathers_before_reduction = [](const char* ahead) {
    const Graph graph = sample("tiny_fsdp2", {"parallel.strategy=fsdp1", "train.trainable=lora",
                                              std::string("parallel.forward_prefetch=") + ahead})
                            .graph;
    std::size_t count = 0;
    for (const OpId id : body_ops(graph)) {
      const Op& op = graph.at(id);
      if (op.kind == OpKind::reduce_scatter) break;
      if (op.kind == OpKind::all_gather && op.phase == Phase::backward) ++count;
    }
    return count;
  };
  // The last block; of its adapters B and A of one linear; with forward prefetch B of another, too.
  CHECK(gathers_before_reduction("false") == 3);
  CHECK(gathers_before_reduction("true") == 4);
}

TEST_CASE("of a module tree a part of a unit may be trained") {
  for (const char* trained : {"0.", "3.", "0.,2.", "1."})
    CHECK(first_problem("moe_fsdp1", {std::string("train.trainable=") + trained}) == "");
}

TEST_CASE("without use_orig_params FSDP1 refuses a module of which a part is trained") {
  const auto refused = [](const char* trained) {
    try {
      sample("gpt2_ddp",
             kTied + Settings{"parallel.strategy=fsdp1", "parallel.use_orig_params=false",
                              std::string("train.trainable=") + trained});
    } catch (const std::exception& error) {
      return std::string(error.what()).find("freezes a part of") != std::string::npos;
    }
    return false;
  };
  CHECK(refused("bias"));
  CHECK(refused("wte"));  // tied: it belongs to the root, as the norm does
  CHECK_FALSE(refused("attn"));
  CHECK_FALSE(refused("ln_f"));
  CHECK_FALSE(refused("all"));
}

TEST_CASE("a tied weight is trained under all its names if under one") {
  for (const char* strategy : {"single", "ddp", "fsdp1", "fsdp2", "zero3"}) {
    INFO(strategy);
    Settings sets = kTied + Settings{std::string("parallel.strategy=") + strategy};
    if (strategy == std::string("single")) sets.emplace_back("parallel.world_size=1");
    const std::int64_t both = model_flops("gpt2_ddp", sets + Settings{"train.trainable=wte,head"});
    CHECK(model_flops("gpt2_ddp", sets + Settings{"train.trainable=wte"}) == both);
    CHECK(model_flops("gpt2_ddp", sets + Settings{"train.trainable=lm_head"}) == both);
    // No tie: the head alone needs no backward of what comes before it.
    const Settings untied = sets + Settings{"model.tie_word_embeddings=false"};
    CHECK(model_flops("gpt2_ddp", untied + Settings{"train.trainable=lm_head"}) < both);
  }
}

TEST_CASE("wrapped under two names, a weight trained by its second one could run") {
  for (const char* trained : {"lm_head", "wte", "attn"})
    CHECK(first_problem("gpt2_two_names",
                        kTied + Settings{std::string("train.trainable=") + trained}) == "");
}

TEST_CASE("FSDP1 prefetches no unit that has no backward") {
  const auto gathers = [](const char* prefetch) {
    const Graph graph =
        sample("tiny_fsdp2", {"parallel.strategy=fsdp1", "train.trainable=lm_head",
                              std::string("parallel.backward_prefetch=") + prefetch})
            .graph;
    std::size_t count = 0;
    for (const OpId op : body_ops(graph)) count += graph.at(op).role == Role::gather ? 1 : 0;
    return count;
  };
  CHECK(gathers("pre") == gathers("none"));
  CHECK(gathers("post") == gathers("none"));
}

// The hook that reshards sits on the gradient that the unit before takes its pre-backward from.
TEST_CASE("FSDP1 reshards a frozen unit once the unit before it has gathered for its backward") {
  for (const char* ahead : {"false", "true"})
    for (const char* prefetch : {"pre", "none"}) {
      INFO("forward_prefetch=" << ahead << ", backward_prefetch=" << prefetch);
      const Graph graph =
          sample("tiny_fsdp2", {"parallel.strategy=fsdp1", "train.trainable=embed_tokens",
                                "model.layers=3", std::string("parallel.forward_prefetch=") + ahead,
                                std::string("parallel.backward_prefetch=") + prefetch})
              .graph;
      std::string heard;
      for (const HostThread& thread : graph.programs[0].threads)
        for (const Action& action : thread.actions(Section::body)) {
          if (action.kind == ActionKind::mark) heard.clear();
          const bool binds = action.kind == ActionKind::alloc;
          if (!binds && action.kind != ActionKind::free) continue;
          const Storage& storage = graph.storages[action.a];
          if (storage.cause == Cause::unsharded_parameter)
            heard += (binds ? '+' : '-') + std::to_string(storage.unit.row());
        }
      // The root, 0, is gathered still. Its embedding's backward is the last.
      CHECK(heard == (prefetch == std::string("pre") ? "+3+2+1-3-2-1-0" : "+3+2-3+1-2-1-0"));
    }
}

TEST_CASE("an integer reshard keeps no part of a unit without a backward") {
  const Settings sets{"train.trainable=lm_head"};
  const auto peak = [&](const char* reshard) {
    const auto simulation = simulated(sample(
        "tiny_fsdp2", sets + Settings{std::string("parallel.reshard_after_forward=") + reshard}));
    CHECK(simulation.converged);
    return simulation.classes.front().steady.peaks.requested;
  };
  CHECK(peak("2") > peak("true"));
}

TEST_CASE("Thunder neither reduces nor updates parameters that nothing uses") {
  for (const char* strategy : {"thunder_zero2", "thunder_zero3"})
    for (const char* bucketing : {"none", "layer", "block"})
      CHECK(first_problem("openvla_zero3",
                          {"model.layers=1,1,1", "train.precision=bf16",
                           std::string("parallel.strategy=") + strategy,
                           std::string("parallel.thunder_bucketing=") + bucketing}) == "");
}

}  // namespace foregather::test
