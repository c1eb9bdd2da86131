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
