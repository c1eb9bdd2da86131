// Llama 4: which of its layers do what, and that each expert computes all tokens.
#include <algorithm>
#include <functional>
#include <catch2/catch.hpp>

#include "core/plan/model_left_out.h"
#include "tests/unit/plan/model_live_bytes.h"
#include "tests/unit/plan/small_model.h"

namespace foregather::test {
namespace {

using namespace plan;

constexpr const char* kSmall =
    R"({"model_type": "llama4_text", "hidden_size": 64, "num_hidden_layers": 8,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 32,
 "intermediate_size_mlp": 160, "num_local_experts": 4, "vocab_size": 100)";

std::string text_of(const std::string& more) { return kSmall + more + "}"; }

std::string complaint(const std::string& more) {
  const TemporaryFile file(text_of(more));
  const auto config = read_model_config(file.path());
  return config ? "no error" : config.error().text();
}

template <typename Has>
std::vector<std::int64_t> layers_that(const ModelConfig& config, Has has) {
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    if (has(config, layer)) layers.push_back(layer);
  return layers;
}
std::vector<std::int64_t> with_experts(const std::string& more) {
  return layers_that(config_read(text_of(more)), std::mem_fn(&ModelConfig::has_experts));
}
std::vector<std::int64_t> without_positions(const std::string& more) {
  return layers_that(config_read(text_of(more)), [](const ModelConfig& config, std::int64_t layer) {
    return !config.has_positions(layer);
  });
}
std::vector<std::int64_t> in_chunks(const std::string& more) {
  return layers_that(config_read(text_of(more)), std::mem_fn(&ModelConfig::has_window));
}

/// The tape of a layer of two sequences of 64 tokens.
Tape block(const std::string& more, std::int64_t layer, Attention attention = Attention::sdpa,
           DType compute = DType::bf16, bool autocast = false) {
  Train train = bf16_train(2, 64);
  train.attention = attention;
  train.compute = compute;
  train.autocast = autocast;
  const Model model = build_model(config_read(text_of(more)), train);
  for (const Tape& tape : model.tapes) CHECK(malformed(tape) == "");
  return model.tapes[model.modules.at(1 + static_cast<std::size_t>(layer)).tape];
}

const Value* find(const Tape& tape, const std::string& name) {
  const auto found = std::ranges::find(tape.values, name, &Value::name);
  return found == tape.values.end() ? nullptr : &*found;
}

std::int64_t attention_pairs(const Graph& graph, std::int64_t nth) {
  std::vector<std::int64_t> flops;
  for (const Cost& cost : graph.costs)
    if (cost.kind == OpKind::attention) flops.push_back(cost.flops);
  std::ranges::sort(flops);
  constexpr std::int64_t kForward = 2 * 2 * 2 * 4 * 16;  // of a pair of positions
  return flops.at(static_cast<std::size_t>(nth)) / kForward;
}

}  // namespace

TEST_CASE("Llama 4: every fourth layer has no positions, and sees all tokens") {
  using Layers = std::vector<std::int64_t>;
  CHECK(without_positions("") == Layers{3, 7});
  CHECK(without_positions(", \"no_rope_layers\": []") == Layers{3, 7});
  CHECK(without_positions(", \"no_rope_layers\": [0, 1, 1, 1, 1, 1, 1, 0]") == Layers{0, 7});
  CHECK(without_positions(", \"no_rope_layer_interval\": 2") == Layers{1, 3, 5, 7});
  CHECK(in_chunks("") == Layers{0, 1, 2, 4, 5, 6});
  CHECK(in_chunks(", \"attention_chunk_size\": null").empty());
  CHECK(in_chunks(R"(, "layer_types": ["full_attention", "chunked_attention", "full_attention",
 "full_attention", "full_attention", "full_attention", "full_attention", "full_attention"])") ==
        Layers{1});
  CHECK(config_read(text_of("")).window == 8192);
  CHECK_THAT(complaint(", \"no_rope_layers\": [1]"), Catch::Contains("has 1 values for 8 layers"));
  CHECK_THAT(complaint(", \"layer_types\": []"), Catch::Contains("has 0 values for 8 layers"));
}

TEST_CASE("Llama 4: layers with experts are every Nth, or those of a list") {
  using Layers = std::vector<std::int64_t>;
  CHECK(with_experts("").size() == 8);
  CHECK(with_experts(", \"interleave_moe_layer_step\": 2") == Layers{1, 3, 5, 7});
  CHECK(with_experts(", \"moe_layers\": [2, 3], \"interleave_moe_layer_step\": 2") == Layers{2, 3});
  CHECK(with_experts(", \"moe_layers\": []").empty());
  const ModelConfig config = config_read(text_of(""));
  CHECK(config.intermediate == 160);
  CHECK(config.experts.intermediate == 32);
  CHECK(config.experts.shared == 32);
  CHECK(config.experts.active == 1);
}

TEST_CASE("Llama 4: each expert computes all tokens, times their routing weights") {
  const Tape tape = block("", 0);
  constexpr std::int64_t kTokens = 128, kExperts = 4;
  const auto bytes = [&](const std::string& name) {
    const Value* value = find(tape, name);
    if (value == nullptr) FAIL("no value " << name);
    return value->bytes;
  };
  CHECK(bytes("tokens of each expert, weighed") == 2 * kExperts * kTokens * 64);
  CHECK(bytes("experts' gate and up") == 2 * kExperts * kTokens * 2 * 32);
  CHECK(bytes("experts' out") == 2 * kExperts * kTokens * 64);
  CHECK(bytes("experts' sum") == 2 * kTokens * 64);
  CHECK(bytes("routing weights, fp32") == 4 * kExperts * kTokens);
  CHECK(bytes("routing weights of all") == 2 * kExperts * kTokens);
  CHECK(find(tape, "order of rows") == nullptr);
  const Tape dense = block(", \"moe_layers\": []", 0);
  CHECK(find(dense, "experts' out") == nullptr);
  CHECK(find(dense, "mlp out") != nullptr);

  // Under autocast the routing weights of a bf16 product widen nothing: tokens are fp32.
  const Tape autocast = block("", 0, Attention::sdpa, DType::bf16, true);
  REQUIRE(find(autocast, "experts' tokens, narrow") != nullptr);
  CHECK(find(autocast, "experts' tokens, narrow")->dtype == DType::bf16);
}

TEST_CASE("Llama 4: queries and keys are turned as complex numbers, then normalized") {
  const Tape turned = block("", 0);
  CHECK(find(turned, "query turned")->dtype == DType::f32);
  CHECK(find(turned, "query norm normalized fp32") != nullptr);
  CHECK(find(turned, "key norm") != nullptr);
  CHECK(find(turned, "scale of positions") == nullptr);
  CHECK(find(block(", \"use_qk_norm\": false", 0), "query norm") == nullptr);

  const Tape plain = block("", 3);
  CHECK(find(plain, "query turned") == nullptr);
  CHECK(find(plain, "query norm") == nullptr);
  CHECK(find(plain, "scale of positions")->dtype == DType::f32);
  CHECK(find(plain, "query, scaled by position")->dtype == DType::f32);
  for (const char* off : {"false", "0"})
    CHECK(find(block(", \"attn_temperature_tuning\": " + std::string(off), 3),
               "scale of positions") == nullptr);
  CHECK(find(block(", \"attn_temperature_tuning\": 4", 3), "scale of positions") != nullptr);
}

TEST_CASE("Llama 4: chunks are masked under SDPA and skipped by a kernel that knows them") {
  const ModelConfig config = config_read(text_of(", \"attention_chunk_size\": 24"));
  const auto lowered = [&](const std::string& attention) {
    return lowered_step(config, {"train.precision=bf16", "train.attention=" + attention});
  };
  // 64 tokens are two chunks of 24 and one of 16.
  constexpr std::int64_t kInChunks = (24 * 24 + 24 * 24 + 16 * 16) / 2;
  CHECK(attention_pairs(lowered("flash"), 0) == kInChunks);
  CHECK(attention_pairs(lowered("flash"), 2) == 64 * 64 / 2);  // behind the chunks' backward
  CHECK(attention_pairs(lowered("sdpa"), 1) == 64 * 64);
  const ModelConfig long_chunks = config_read(text_of(", \"attention_chunk_size\": 65"));
  CHECK(attention_pairs(lowered_step(long_chunks, {"train.precision=bf16"}), 0) == 64 * 64 / 2);
  Train train = bf16_train(2, 64);
  train.attention = Attention::flash;
  CHECK(model_warnings(config, train).size() == 2);
  train.attention = Attention::sdpa;
  REQUIRE(model_warnings(config, train).size() == 1);
  CHECK_THAT(model_warnings(config, train).front(), Catch::Contains("4 times the work"));
  CHECK(model_warnings(config_read(text_of(", \"moe_layers\": []")), train).empty());
}

}  // namespace foregather::test
