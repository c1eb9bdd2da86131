// What configs of mixtures of experts say, and what their routers run.
#include <algorithm>
#include <string>
#include <catch2/catch.hpp>

#include "core/plan/autocast.h"
#include "core/plan/lower.h"
#include "core/plan/model.h"
#include "core/plan/model_left_out.h"
#include "core/plan/trainable.h"
#include "core/plan/workload_toml.h"
#include "core/plan/workload_warnings.h"
#include "tests/unit/plan/model_live_bytes.h"
#include "tests/unit/plan/temporary_file.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

Result<ModelConfig> read_experts(const std::string& type, const std::string& more) {
  return read_model_config(TemporaryFile("{\"model_type\": \"" + type +
                                         "\", \"hidden_size\": 64, \"num_hidden_layers\": 2,\n" +
                                         more + "}")
                               .path());
}

ModelConfig experts(const std::string& type, const std::string& more = "\"use_cache\": true") {
  Result<ModelConfig> config = read_experts(type, more);
  if (!config) FAIL(config.error().text());
  return *config;
}

Tape block_of(const ModelConfig& config, DType compute = DType::bf16) {
  Train train;
  train.micro_batch = 1;
  train.seq_len = 64;
  train.compute = compute;
  const Model model = build_model(config, train);
  return model.tapes[model.modules.at(2).tape];
}

DType dtype_of(const Tape& tape, const std::string& name) {
  const auto found =
      std::ranges::find_if(tape.values, [&](const Value& value) { return value.name == name; });
  REQUIRE(found != tape.values.end());
  return found->dtype;
}

bool has_value(const Tape& tape, const std::string& name) {
  return std::ranges::any_of(tape.values, [&](const Value& value) { return value.name == name; });
}

/// Without a number of experts.
constexpr const char* kUncounted =
    R"("num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 96,
 "moe_intermediate_size": 32, "num_experts_per_tok": 2, "vocab_size": 100, )";
constexpr const char* kSmall =
    R"("num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 96, "moe_intermediate_size": 32,
 "num_experts": 8, "num_local_experts": 8, "n_routed_experts": 8, "num_experts_per_tok": 2,
 "vocab_size": 100)";

}  // namespace

TEST_CASE("routing weights that stay in fp32 widen what they weigh") {
  const Tape mixtral = block_of(experts("mixtral", kSmall));
  CHECK(dtype_of(mixtral, "experts' out") == DType::bf16);
  CHECK(dtype_of(mixtral, "experts' out, weighed") == DType::f32);
  CHECK(dtype_of(mixtral, "rows by token") == DType::f32);
  CHECK(dtype_of(mixtral, "experts' sum, narrow") == DType::bf16);
  const Tape qwen = block_of(experts("qwen3_moe", kSmall));
  CHECK(dtype_of(qwen, "experts' out, weighed") == DType::bf16);
  CHECK(!has_value(qwen, "experts' sum, narrow"));
}

TEST_CASE("DeepSeek's routers and GLM's multiply in fp32, and scale the weights") {
  const Tape glm = block_of(experts("glm4_moe", kSmall));
  CHECK(dtype_of(glm, "tokens, fp32") == DType::f32);
  CHECK(dtype_of(glm, "router weight, fp32") == DType::f32);
  CHECK(dtype_of(glm, "router logits") == DType::f32);
  CHECK(has_value(glm, "routing weights, scaled"));
  CHECK(!has_value(block_of(experts("glm4_moe", kSmall), DType::f32), "tokens, fp32"));
  const Tape minimax = block_of(experts("minimax_m2", kSmall));
  CHECK(dtype_of(minimax, "router logits") == DType::bf16);
  CHECK(!has_value(minimax, "routing weights, scaled"));
}

TEST_CASE("norm_topk_prob says whether routing weights sum to one") {
  const std::string yes = std::string(kSmall) + R"(, "norm_topk_prob": true)";
  const std::string no = std::string(kSmall) + R"(, "norm_topk_prob": false)";
  const auto sums = [&](const char* type, const std::string& more) {
    return experts(type, more).experts.router.sums_to_one;
  };
  for (const char* type : {"qwen2_moe", "qwen3_moe", "olmoe"}) {
    INFO(type);
    CHECK(!sums(type, kSmall));
    CHECK(sums(type, yes));
  }
  for (const char* type : {"deepseek_v3", "kimi_k2", "glm4_moe"}) {
    INFO(type);
    CHECK(sums(type, kSmall));
    CHECK(!sums(type, no));
  }
  CHECK(!sums("deepseek_v2", yes));
  CHECK(sums("mixtral", no));
  const Tape block = block_of(experts("qwen3_moe", yes));
  CHECK(has_value(block, "routing weights, as they were"));
  CHECK(!has_value(block_of(experts("qwen3_moe", no)), "routing weights, as they were"));
}

TEST_CASE("GLM's first layers are dense, and Kimi's are DeepSeek's") {
  const ModelConfig glm = experts("glm4_moe", kSmall);
  CHECK(!glm.has_experts(0));
  CHECK(glm.has_experts(1));
  CHECK(glm.rotary_dim == glm.head_dim / 2);
  CHECK(glm.experts.shared == 32);
  CHECK(!glm.output_bias);
  const ModelConfig kimi = experts("kimi_k2", std::string(kSmall) + R"(,
 "first_k_dense_replace": 1)");
  CHECK(kimi.latent.kv_rank == 512);
  CHECK(kimi.experts.router.f32_product);
  CHECK(count_parameters(kimi) == count_parameters(experts("deepseek_v3", std::string(kSmall) + R"(,
 "first_k_dense_replace": 1)")));
}

TEST_CASE("MiniMax names the rotated values, not their part") {
  const auto minimax = [&](const char* more) {
    return read_experts("minimax_m2", std::string(kSmall) + ", " + more);
  };
  CHECK(minimax(R"("rotary_dim": 64)")->rotary_dim == 64);
  CHECK(minimax(R"("partial_rotary_factor": 0.25)")->rotary_dim == 32);
  CHECK(minimax(R"("use_cache": true)")->rotary_dim == 128);
  for (const char* wrong : {R"("rotary_dim": 130)", R"("rotary_dim": 31)"}) {
    const Result<ModelConfig> config = minimax(wrong);
    REQUIRE(!config);
    CHECK_THAT(config.error().text(), Catch::Contains("'rotary_dim' is") &&
                                          Catch::Contains("of a head dimension of 128, expected"));
  }
}

TEST_CASE("a clamp of queries, keys and values is named as left out") {
  CHECK(experts("olmoe", std::string(kSmall) + R"(, "clip_qkv": null)").left_out.empty());
  const ModelConfig clipped = experts("olmoe", std::string(kSmall) + R"(, "clip_qkv": 8.0)");
  REQUIRE(clipped.left_out.size() == 1);
  CHECK_THAT(clipped.left_out[0], Catch::Contains("'clip_qkv' has no effect"));
}

TEST_CASE("Seed-OSS has a bias of the output apart, and dropout") {
  const std::string sizes = std::string(kSmall);
  const ModelConfig usual = experts("seed_oss", sizes);
  CHECK(usual.qkv_bias);
  CHECK(!usual.output_bias);
  CHECK(usual.residual_dropout == 0.1);
  CHECK(experts("seed_oss", sizes + R"(, "attention_out_bias": true)").output_bias);
}

TEST_CASE("GPT-OSS has sinks, biases of experts and a gate that is clamped") {
  const ModelConfig config = experts("gpt_oss", kSmall);
  CHECK(config.sinks);
  CHECK(config.output_bias);
  CHECK(config.window == 128);
  const Tape block = block_of(config);
  CHECK(malformed(block) == "");
  CHECK(has_value(block, "experts' up + 1"));
  CHECK(has_value(block, "experts' out, with bias"));
  CHECK(!has_value(block, "router probabilities"));
  CHECK(dtype_of(block, "routing weights, normalized") == DType::bf16);
  Train train;
  train.seq_len = 64;
  REQUIRE(model_warnings(config, train).size() == 1);
  CHECK_THAT(model_warnings(config, train)[0], Catch::Contains("attention has sinks"));
  train.attention = Attention::eager;
  CHECK(model_warnings(config, train).empty());
  // Fused attention has no scores to join the sinks to, but their gradient.
  CHECK(!has_value(block, "attention scores and sinks"));
  for (const char* parameter :
       {"self_attn.sinks", "mlp.router.bias", "mlp.experts.down_proj_bias"}) {
    INFO(parameter);
    CHECK(has_value(block, std::string("grad ") + parameter));
  }
}

TEST_CASE("autocast knows no grouped_mm: experts multiply in the weights' fp32") {
  Train train;
  train.micro_batch = 1;
  train.seq_len = 64;
  train.autocast = true;
  const Model model = build_model(experts("qwen3_moe", kSmall), train);
  const Tape& block = model.tapes[model.modules.at(2).tape];
  CHECK(malformed(block) == "");
  CHECK(dtype_of(block, "query") == DType::bf16);
  CHECK(dtype_of(block, "experts' gate and up") == DType::f32);
  CHECK(dtype_of(block, "experts' sum") == DType::f32);
  // Neither forward nor backward multiplies a copy: 2 products forward, 4 backward.
  const auto grouped = [&](const std::vector<TapeOp>& ops) {
    return std::ranges::count_if(ops, [](const TapeOp& op) {
      return op.cost.kind == OpKind::gemm && op.cost.batch == 8 && op.cost.dtype == DType::f32;
    });
  };
  CHECK(grouped(block.forward) == 2);
  CHECK(grouped(block.backward) == 4);
  for (ParameterIndex p = 0; p < block.parameters.size(); ++p) {
    const std::string& name = block.parameters[p].name;
    CAPTURE(name);
    if (name.find(".experts.") != std::string::npos) CHECK(!is_matmul_operand(block, p));
    if (name.find("_proj.weight") != std::string::npos) CHECK(is_matmul_operand(block, p));
  }
}

TEST_CASE("routers take neither adapters nor float8") {
  Trainable trainable;
  trainable.kind = Trainable::Kind::lora;
  trainable.targets = {"all-linear", "gate", "router"};
  Train train;
  train.float8 = Float8::rowwise;
  constexpr std::int64_t kShape[] = {64, 128};
  for (const char* router : {"mlp.gate.weight", "model.layers.0.mlp.router.weight"}) {
    INFO(router);
    CHECK(!has_adapter(trainable, router));
    CHECK(!is_float8(train, router, kShape));
  }
  CHECK(has_adapter(trainable, "self_attn.q_proj.weight"));
  CHECK(is_float8(train, "self_attn.q_proj.weight", kShape));
  train.trainable = trainable;
  REQUIRE(model_warnings(experts("qwen3_moe", kSmall), train).size() == 1);
  CHECK_THAT(model_warnings(experts("qwen3_moe", kSmall), train)[0],
             Catch::Contains("stacked experts and routers get no adapters"));
  train.trainable.targets = {"q_proj", "mlp.down_proj"};
  CHECK(model_warnings(experts("qwen3_moe", kSmall), train).size() == 1);
  train.trainable.targets = {"q_proj"};
  CHECK(model_warnings(experts("qwen3_moe", kSmall), train).empty());
}

TEST_CASE("what balances experts or disturbs their choice is named as left out") {
  const auto left_out = [](const char* more) {
    return experts("mixtral", std::string(kSmall) + ", " + more).left_out.size();
  };
  CHECK(left_out(R"("output_router_logits": true)") == 1);
  CHECK(left_out(R"("output_router_logits": false, "router_jitter_noise": 0.0)") == 0);
  CHECK(left_out(R"("router_jitter_noise": 0.1)") == 1);
  CHECK_THAT(read_experts("mixtral", std::string(kSmall) + R"(, "router_jitter_noise": -1)")
                 .error()
                 .text(),
             Catch::Contains("'router_jitter_noise' is -1, expected"));
}

TEST_CASE("numbers of experts have several names, and one that is set goes over the file's") {
  const auto count = [](const char* type, const std::string& more) {
    return experts(type, kUncounted + more).experts.count;
  };
  CHECK(count("deepseek_v3", R"("num_local_experts": 64)") == 64);
  CHECK(count("glm4_moe", R"("head_dim": 128, "num_local_experts": 16)") == 16);
  CHECK(count("deepseek_v2", R"("num_experts": 32)") == 32);
  Workload workload;
  const TemporaryFile file(
      R"({"model_type": "mixtral", "hidden_size": 64, "num_hidden_layers": 2, )" +
      std::string(kUncounted) + R"("num_local_experts": 8})");
  workload.model_config = file.path();
  workload.model_keys = {{"num_experts", "4", "here"}};
  const Result<ModelConfig> model = read_model(workload);
  if (!model) FAIL(model.error().text());
  CHECK(model->experts.count == 4);
}

TEST_CASE("DeepSeek-V2 may have biases, GPT-OSS one type a layer, and Qwen's mixtures windows") {
  const auto parameters = [](const char* type, const char* biased) {
    return count_parameters(experts(type, std::string(kSmall) + R"(, "mlp_bias": )" + biased));
  };
  CHECK(parameters("deepseek_v2", "true") > parameters("deepseek_v2", "false"));
  CHECK(parameters("deepseek_v3", "true") == parameters("deepseek_v3", "false"));
  CHECK_THAT(read_experts("gpt_oss", std::string(kSmall) + R"(, "layer_types": ["full_attention"])")
                 .error()
                 .text(),
             Catch::Contains("'layer_types' has 1 values for 2 layers"));
  for (const char* type : {"qwen2_moe", "qwen3_moe"})
    CHECK(experts(type, std::string(kSmall) + R"(, "use_sliding_window": true,
 "sliding_window": 32, "max_window_layers": 2)")
              .window == 32);
}

TEST_CASE("the part that rotates is first looked for among the rope_parameters") {
  const auto rotated = [](const char* type, const char* more) {
    return experts(type, std::string(kSmall) + R"(, "head_dim": 64, )" + more).rotary_dim;
  };
  constexpr const char* kInside = R"("rope_parameters": {"partial_rotary_factor": 0.25})";
  CHECK(rotated("glm4_moe", (std::string(R"("partial_rotary_factor": 0.5, )") + kInside).c_str()) ==
        16);
  CHECK(rotated("minimax_m2", (std::string(R"("rotary_dim": 32, )") + kInside).c_str()) == 16);
}

TEST_CASE("attention with sinks is that of FlashAttention, or eager in fp32") {
  const ModelConfig model = experts("gpt_oss", kSmall);
  const auto resolved = [&](Attention asked, DType compute) -> Result<Attention> {
    Workload workload;
    workload.train.attention = asked;
    workload.train.compute = compute;
    workload.parallel.world_size = 1;
    if (const Status status = resolve_workload(workload, model); !status)
      return tl::unexpected(status.error());
    return workload.train.attention;
  };
  CHECK(resolved(Attention::sdpa, DType::bf16) == Attention::flash);
  CHECK(resolved(Attention::sdpa, DType::f32) == Attention::eager);
  CHECK(resolved(Attention::eager, DType::bf16) == Attention::eager);
  CHECK_THAT(resolved(Attention::cudnn, DType::bf16).error().text(),
             Catch::Contains("knows no sinks as gpt_oss has"));
}

// Recorded with PyTorch 2.15, transformers 5.24 and gloo: bytes of a block's all-gather in fp32.
TEST_CASE("FSDP2 cuts the experts that a layer stacks by expert, and pads their number") {
  const std::string small =
      R"("num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 96,
 "max_position_embeddings": 64, "intermediate_size": 64, )";
  const auto gathered = [](const std::string& type, const std::string& more, int ranks) {
    Result<ModelConfig> config = read_model_config(
        TemporaryFile("{\"model_type\": \"" + type +
                      "\", \"hidden_size\": 32, \"num_hidden_layers\": 2, " + more + "}")
            .path());
    if (!config) FAIL(config.error().text());
    Workload workload = *parse_workload(
        "[model]\nconfig = \"m.json\"\n[train]\nmicro_batch = 1\nseq_len = 16\nprecision = "
        "\"fp32\"\n[parallel]\nstrategy = \"fsdp2\"\nworld_size = " +
            std::to_string(ranks) + "\n",
        "w.toml", {});
    REQUIRE(resolve_workload(workload, *config));
    const auto graph = lower(build_model(*config, workload), workload);
    REQUIRE(graph);
    return std::pair{4 * graph->units[1].padded_elements, padding_warnings(workload, *config)};
  };
  CHECK(gathered("mixtral", small + R"("num_local_experts": 3)", 2).first == 111'360);
  CHECK(gathered("mixtral", small + R"("num_local_experts": 2)", 4).first == 111'360);
  CHECK(gathered("olmoe", small + R"("num_experts": 3, "num_experts_per_tok": 2)", 2).first ==
        111'552);
  CHECK(gathered("qwen3_moe", small + R"("num_experts": 3, "num_experts_per_tok": 2, "head_dim": 8,
 "moe_intermediate_size": 32)",
                 2)
            .first == 62'272);
  CHECK(gathered("gpt_oss", small + R"("num_local_experts": 3, "num_experts_per_tok": 2,
 "head_dim": 8)",
                 2)
            .first == 114'336);
  CHECK(gathered("mixtral", small + R"("num_local_experts": 3)", 2).second.empty());
  const auto warnings = gathered("mixtral", small + R"("num_local_experts": 2)", 4).second;
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings.front(), Catch::StartsWith("w.toml:9:"));
  CHECK_THAT(warnings.front(), Catch::Contains("to 4: gathers and reductions move 2 times"));
}
