// Further kin of Llama: what their configs leave out and say, and what their blocks do by
// themselves.
#include <algorithm>
#include <string>
#include <catch2/catch.hpp>

#include "core/plan/model.h"
#include "core/plan/trainable.h"
#include "tests/unit/plan/model_live_bytes.h"
#include "tests/unit/plan/temporary_file.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

using Layers = std::vector<std::int64_t>;

// A section may leave out all that its configuration class has defaults for.
ModelConfig defaults_of(const std::string& type, const std::string& more = "") {
  const TemporaryFile file(R"({"model_type": "mistral3", "text_config": {"model_type": ")" + type +
                           "\"" + more + "}}");
  const Result<ModelConfig> config = read_model_config(file.path());
  if (!config) FAIL(config.error().text());
  return *config;
}

std::string complaint_of_type(const std::string& type, const std::string& more) {
  const TemporaryFile file("{\"model_type\": \"" + type + R"(", "hidden_size": 64,
 "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 160, "vocab_size": 100)" +
                           more + "}");
  const Result<ModelConfig> config = read_model_config(file.path());
  return config ? "no error" : config.error().text();
}

/// Two layers of one sequence of 64 tokens.
Model built(ModelConfig config, DType compute = DType::bf16, bool autocast = false,
            Attention attention = Attention::sdpa) {
  Train train;
  train.micro_batch = 1;
  train.seq_len = 64;
  train.compute = compute;
  train.autocast = autocast;
  train.attention = attention;
  config.layers = 2;
  Model model = build_model(config, train);
  for (const Tape& tape : model.tapes) CHECK(malformed(tape) == "");
  return model;
}

const Value* value_of(const Tape& tape, const std::string& name) {
  const auto found = std::ranges::find(tape.values, name, &Value::name);
  return found == tape.values.end() ? nullptr : &*found;
}

DType kin_dtype(const Tape& tape, const std::string& name) {
  const Value* value = value_of(tape, name);
  if (value == nullptr) FAIL("no value " << name);
  return value->dtype;
}

std::int64_t numbers(const ModelConfig& c) {
  return c.hidden + c.layers + c.heads + c.kv_heads + c.head_dim + c.intermediate + c.vocab +
         c.max_positions;
}

}  // namespace

TEST_CASE("Ministral's configs: a type a layer, and queries that positions scale") {
  const ModelConfig ministral = defaults_of("ministral");
  CHECK(numbers(ministral) == 4096 + 32 + 32 + 8 + 128 + 14'336 + 32'000 + 131'072);
  CHECK_FALSE(ministral.tied_embeddings);
  CHECK(ministral.window == 4096);
  CHECK_THAT(complaint_of_type("ministral", ", \"layer_types\": [\"full_attention\"]"),
             Catch::Contains("'layer_types' has 1 values for 4 layers"));

  const ModelConfig ministral3 = defaults_of("ministral3");
  CHECK(numbers(ministral3) == 4096 + 34 + 32 + 8 + 128 + 14'336 + 131'072 + 262'144);
  CHECK(ministral3.window == 0);
  CHECK(defaults_of("ministral3", ", \"hidden_size\": 2048, \"head_dim\": null").head_dim == 64);
  const Model model = built(ministral3);
  CHECK(value_of(model.tapes[1], "query, scaled by position") != nullptr);
  CHECK(value_of(built(ministral).tapes[1], "query, scaled by position") == nullptr);
}

TEST_CASE("EXAONE 4 has positions where it has windows, or everywhere") {
  const ModelConfig exaone = defaults_of("exaone4");
  CHECK(numbers(exaone) == 4096 + 32 + 32 + 32 + 128 + 16'384 + 102'400 + 2048);
  CHECK(exaone.unrotated == Layers{3, 7, 11, 15, 19, 23, 27, 31});
  CHECK(exaone.has_window(0));
  CHECK_FALSE(exaone.has_window(3));
  // As transformers writes what has no windows.
  CHECK(defaults_of("exaone4", ", \"sliding_window\": null, \"sliding_window_pattern\": 0")
            .unrotated.empty());
  CHECK_THAT(complaint_of_type("exaone4", ", \"sliding_window_pattern\": 0"),
             Catch::Contains("'sliding_window_pattern' is 0, expected"));
  CHECK(defaults_of("exaone4", R"(, "num_hidden_layers": 2, "sliding_window_pattern": "LG",
 "layer_types": ["full_attention", "sliding_attention"])")
            .unrotated == Layers{0});
  CHECK_THAT(complaint_of_type("exaone4", ", \"layer_types\": []"),
             Catch::Contains("'layer_types' has 0 values"));
}

TEST_CASE("ERNIE 4.5 has biases everywhere or nowhere, and turns in fp32") {
  const ModelConfig ernie = defaults_of("ernie4_5", ", \"attention_dropout\": 0.1");
  CHECK(numbers(ernie) == 1024 + 18 + 16 + 2 + 128 + 3072 + 103'424 + 131'072);
  CHECK(ernie.tied_embeddings);
  CHECK(ernie.attention_dropout == 0);
  CHECK_FALSE((ernie.qkv_bias || ernie.output_bias || ernie.mlp_bias));
  const ModelConfig biased = defaults_of(
      "ernie4_5", R"(, "use_bias": true, "head_dim": null, "num_key_value_heads": null)");
  CHECK((biased.qkv_bias && biased.output_bias && biased.mlp_bias));
  CHECK(biased.head_dim == 64);
  CHECK(biased.kv_heads == 16);
  const Tape block = built(ernie).tapes[1];
  CHECK(kin_dtype(block, "rotary cos, spread") == DType::f32);
  CHECK(kin_dtype(block, "query rotated") == DType::bf16);
  CHECK(kin_dtype(block, "query rotated fp32") == DType::f32);
  CHECK(kin_dtype(block, "query with positions, narrow") == DType::bf16);
}

TEST_CASE("Arcee and Nemotron square a relu") {
  const ModelConfig arcee = defaults_of("arcee");
  CHECK(numbers(arcee) == 2560 + 32 + 32 + 32 + 80 + 18'432 + 32'000 + 4096);
  const ModelConfig nemotron = defaults_of("nemotron");
  CHECK(numbers(nemotron) == 6144 + 32 + 48 + 48 + 128 + 24'576 + 256'000 + 4096);
  for (const ModelConfig& config : {arcee, nemotron}) {
    CHECK_FALSE((config.tied_embeddings || config.qkv_bias || config.mlp_bias));
    const Tape block = built(config).tapes[1];
    CHECK(value_of(block, "relu squared") != nullptr);
    CHECK(value_of(block, "mlp gate") == nullptr);
  }
  CHECK(nemotron.rotary_dim == 64);
  CHECK(defaults_of("nemotron", ", \"partial_rotary_factor\": 0.25").rotary_dim == 32);
  const ModelConfig biased = defaults_of("arcee", ", \"attention_bias\": true, \"mlp_bias\": true");
  CHECK((biased.qkv_bias && biased.output_bias && biased.mlp_bias));
}

TEST_CASE("Nemotron adds one to the weights of its norms, which autocast narrows") {
  const std::string weight = "input_layernorm.weight + 1";
  const ModelConfig config = defaults_of("nemotron", R"(, "hidden_size": 96, "head_dim": 64)");
  CHECK(config.norm == ModelConfig::Norm::layer_offset);
  CHECK(kin_dtype(built(config).tapes[1], weight) == DType::bf16);
  CHECK(kin_dtype(built(config, DType::f32).tapes[1], weight) == DType::f32);
  const Tape narrow = built(config, DType::bf16, true).tapes[1];
  CHECK(kin_dtype(narrow, weight) == DType::bf16);
  CHECK(kin_dtype(narrow, "attention norm") == DType::bf16);
  CHECK(kin_dtype(narrow, "residual") == DType::f32);
}

TEST_CASE("OLMo's norms are in fp32 and have no parameters") {
  const ModelConfig olmo = defaults_of("olmo");
  CHECK(numbers(olmo) == 4096 + 32 + 32 + 32 + 128 + 11'008 + 50'304 + 2048);
  CHECK_FALSE(olmo.tied_embeddings);
  const Model model = built(olmo);
  for (const Tape& tape : model.tapes)
    for (const auto& parameter : tape.parameters)
      CHECK(parameter.name.find("norm") == std::string::npos);
  CHECK(kin_dtype(model.tapes[1], "mlp norm normalized fp32") == DType::f32);
  CHECK(kin_dtype(model.tapes[1], "mlp norm") == DType::bf16);
  CHECK(value_of(built(olmo, DType::bf16, true).tapes[1], "mlp norm fp32") == nullptr);
  CHECK(defaults_of("olmo", ", \"clip_qkv\": 8.0").left_out.size() == 2);
  CHECK(defaults_of("olmo", ", \"clip_qkv\": null").left_out.size() == 1);
}

TEST_CASE("Granite's mixture chooses experts by fp32 logits and weighs in the compute dtype") {
  const ModelConfig granite = defaults_of("granitemoe", ", \"hidden_size\": 256");
  CHECK(granite.kv_heads == 32);
  CHECK(granite.experts.count == 8);
  CHECK(granite.experts.active == 2);
  CHECK(granite.experts.intermediate == 11'008);
  CHECK((granite.scaled_embeddings && granite.scaled_residual && granite.scaled_logits));
  const Tape block = built(granite).tapes[1];
  CHECK(kin_dtype(block, "router logits, fp32") == DType::f32);
  CHECK(kin_dtype(block, "routing weights, normalized") == DType::f32);
  CHECK(kin_dtype(block, "routing weights, narrow") == DType::bf16);
  CHECK(value_of(block, "router probabilities") == nullptr);

  Trainable trainable;
  trainable.kind = Trainable::Kind::lora;
  trainable.targets = {"all-linear"};
  CHECK_FALSE(has_adapter(trainable, "block_sparse_moe.router.weight"));
  CHECK(has_adapter(trainable, "self_attn.q_proj.weight"));
}

TEST_CASE("BLOOM normalizes embeddings and adds ALiBi to scores in eager attention") {
  const ModelConfig bloom = defaults_of("bloom");
  CHECK(numbers(bloom) == 64 + 2 + 8 + 8 + 8 + 256 + 250'880 + 2048);
  CHECK((bloom.tied_embeddings && bloom.qkv_bias && bloom.output_bias && bloom.mlp_bias));
  CHECK_FALSE(bloom.has_sdpa);
  CHECK(bloom.attention_dropout == 0);
  CHECK(defaults_of("bloom", ", \"hidden_dropout\": 0.1").residual_dropout == 0.1);
  CHECK(defaults_of("bloom", ", \"n_embed\": 128, \"num_attention_heads\": 4").head_dim == 32);
  for (const char* key : {"apply_residual_connection_post_layernorm", "slow_but_exact"})
    CHECK_THAT(complaint_of_type("bloom", ", \"" + std::string(key) + "\": true"),
               Catch::Contains("' is true, expected false"));
  const Model model = built(bloom);
  CHECK(model.tapes[0].parameters.size() == 3);
  CHECK(kin_dtype(model.tapes[0], "hidden states, normed") == DType::bf16);
  const Tape block = built(bloom, DType::bf16, false, Attention::eager).tapes[1];
  CHECK(kin_dtype(block, "attention scores, fp32") == DType::f32);
  CHECK(value_of(block, "attention scores, unscaled") == nullptr);
  CHECK(value_of(block, "key by head") != nullptr);
}

TEST_CASE("Phi-3.5-MoE draws two experts a token, after noise where the config has it") {
  const std::string small = ", \"hidden_size\": 256, \"intermediate_size\": 64";
  const ModelConfig phimoe = defaults_of("phimoe", small);
  CHECK(numbers(phimoe) == 256 + 32 + 32 + 8 + 8 + 64 + 32'064 + 131'072);
  CHECK(phimoe.experts.count == 16);
  CHECK(phimoe.experts.active == 2);
  CHECK_FALSE((phimoe.head_bias || phimoe.qkv_bias || phimoe.experts.noise));
  CHECK_THAT(
      complaint_of_type("phimoe", ", \"num_experts_per_tok\": 1, \"num_key_value_heads\": 2"),
      Catch::Contains("'num_experts_per_tok' is 1, expected 2"));
  const Tape calm = built(phimoe).tapes[1];
  CHECK(value_of(calm, "noise on tokens") == nullptr);
  CHECK(kin_dtype(calm, "router probabilities, second") == DType::bf16);
  CHECK(kin_dtype(built(phimoe, DType::bf16, true).tapes[1], "routing weights") == DType::f32);

  const ModelConfig noisy = defaults_of("phimoe", small + R"(, "input_jitter_noise": 0.01,
 "router_jitter_noise": 0.01, "lm_head_bias": true, "attention_bias": true)");
  CHECK((noisy.head_bias && noisy.qkv_bias && noisy.output_bias));
  CHECK(noisy.left_out.size() == 1);  // the vision tower of the test
  const Tape block = built(noisy).tapes[1];
  CHECK(std::ranges::count(block.values, "noise on tokens", &Value::name) == 2);
}
