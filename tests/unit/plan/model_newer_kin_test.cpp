// Further kin of Llama: what their configs leave out and say, and what their blocks do by
// themselves.
#include <algorithm>
#include <string>
#include <catch2/catch.hpp>

#include "core/plan/model.h"
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
Model built(ModelConfig config, DType compute = DType::bf16, bool autocast = false) {
  Train train;
  train.micro_batch = 1;
  train.seq_len = 64;
  train.compute = compute;
  train.autocast = autocast;
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
