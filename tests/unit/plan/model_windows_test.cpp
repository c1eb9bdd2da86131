// Layers that see a window of tokens: which they are, and what their attention costs.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/plan/small_model.h"

namespace foregather::test {
namespace {

using namespace plan;
using Layers = std::vector<std::int64_t>;

constexpr std::int64_t kSequence = 64;

ModelConfig model_with(const std::string& type, const std::string& lines) {
  return config_read("{\"model_type\": \"" + type + "\", \"hidden_size\": 64, " +
                     "\"num_hidden_layers\": 6, \"num_attention_heads\": 4, " +
                     "\"num_key_value_heads\": 2, \"head_dim\": 16, " +
                     "\"intermediate_size\": 160, \"vocab_size\": 100" + lines + "}");
}

Layers layers_with_windows(const std::string& type, const std::string& lines = {}) {
  const ModelConfig config = model_with(type, lines);
  Layers layers;
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    if (config.has_window(layer)) layers.push_back(layer);
  return layers;
}

const Layers kAll{0, 1, 2, 3, 4, 5};

std::string window(std::int64_t tokens) {
  return ", \"sliding_window\": " + std::to_string(tokens);
}

Graph lowered_with(const ModelConfig& config, const std::string& attention) {
  return lowered_step(config, {"train.precision=bf16", "train.attention=" + attention});
}

std::vector<std::int64_t> flops_of_attention(const Graph& graph) {
  std::vector<std::int64_t> flops;
  for (const Cost& cost : graph.costs)
    if (cost.kind == OpKind::attention) flops.push_back(cost.flops);
  std::ranges::sort(flops);
  return flops;
}

Bytes largest_named(const Graph& graph, const std::string& name) {
  Bytes bytes = 0;
  for (const Storage& storage : graph.storages)
    if (graph.text(storage.name) == name) bytes = std::max(bytes, storage.bytes);
  return bytes;
}

// Two matmuls over so many pairs of positions, of 2 sequences, 4 heads, 16 wide; five in backward.
std::vector<std::int64_t> of_pairs(std::initializer_list<std::int64_t> numbers) {
  std::vector<std::int64_t> flops;
  for (const std::int64_t pairs : numbers)
    for (const std::int64_t products : {2, 5}) flops.push_back(products * 2 * pairs * 2 * 4 * 16);
  std::ranges::sort(flops);
  return flops;
}

constexpr std::int64_t kCausal = kSequence * kSequence / 2;
constexpr std::int64_t kSquare = kSequence * kSequence;

}  // namespace

TEST_CASE("windows: layers of each class of transformers have them") {
  CHECK(layers_with_windows("llama", window(32)).empty());
  CHECK(layers_with_windows("mistral") == kAll);  // MistralConfig's 4096
  CHECK(layers_with_windows("mistral", ", \"sliding_window\": null").empty());
  CHECK(layers_with_windows("mixtral").empty());
  CHECK(layers_with_windows("phi3", window(32)) == kAll);
  CHECK(layers_with_windows("gemma2") == Layers{0, 2, 4});
  CHECK(layers_with_windows("gemma3_text") == Layers{0, 1, 2, 3, 4});
  CHECK(layers_with_windows("gemma3_text", ", \"sliding_window_pattern\": 3") ==
        Layers{0, 1, 3, 4});
  CHECK(layers_with_windows("olmo3") == Layers{0, 1, 2, 4, 5});
  CHECK(layers_with_windows("cohere2") == Layers{0, 1, 2, 4, 5});
  CHECK(layers_with_windows("exaone4") == Layers{0, 1, 2, 4, 5});
  CHECK(layers_with_windows("exaone4", ", \"sliding_window_pattern\": 2") == Layers{0, 2, 4});
  CHECK(layers_with_windows("exaone4", ", \"sliding_window\": null").empty());
  CHECK(layers_with_windows("ministral") == kAll);  // MinistralConfig's 4096
  CHECK(layers_with_windows("ministral", ", \"sliding_window\": null").empty());
  CHECK(layers_with_windows("ministral3").empty());
  CHECK(layers_with_windows("ministral3", window(32)) == kAll);
  CHECK(layers_with_windows("qwen2", window(32)).empty());
  const std::string on = window(32) + ", \"use_sliding_window\": true";
  CHECK(layers_with_windows("qwen2", window(32) + ", \"use_sliding_window\": false").empty());
  CHECK(layers_with_windows("qwen2", on + ", \"max_window_layers\": 4") == Layers{4, 5});
  CHECK(layers_with_windows("qwen2", on).empty());  // Qwen2Config's 28
  CHECK(layers_with_windows("qwen2_moe", on + ", \"max_window_layers\": 3") == Layers{0, 2});
  CHECK(layers_with_windows("qwen3_moe", on) == kAll);
  CHECK(layers_with_windows("smollm3", on) == Layers{3});
}

TEST_CASE("windows: layer_types go over what a class does by itself") {
  const std::string types =
      R"(, "layer_types": ["full_attention", "full_attention", "sliding_attention",
 "full_attention", "full_attention", "full_attention"])";
  const std::string on = window(32) + ", \"use_sliding_window\": true";
  CHECK(layers_with_windows("qwen3", on + types) == Layers{2});
  CHECK(layers_with_windows("gemma3_text", window(32) + types) == Layers{2});
  CHECK(layers_with_windows("mistral", window(32) + types) == kAll);
  CHECK(layers_with_windows("ministral", window(32) + types) == Layers{2});
  CHECK(layers_with_windows("ministral3", window(32) + types) == kAll);
  // LG AI Research's files have letters, too.
  CHECK(layers_with_windows("exaone4", ", \"sliding_window_pattern\": \"LLLG\"" + types) ==
        Layers{2});
}

TEST_CASE("windows: FlashAttention computes the pairs within them alone") {
  CHECK(flops_of_attention(lowered_with(model_with("mistral", window(kSequence)), "flash")) ==
        of_pairs({kCausal}));
  const std::int64_t within = kSequence * 16 - 16 * 16 / 2;
  CHECK(flops_of_attention(lowered_with(model_with("mistral", window(16)), "flash")) ==
        of_pairs({within}));
  CHECK(flops_of_attention(lowered_with(model_with("olmo3", window(16)), "flash")) ==
        of_pairs({within, kCausal}));
}

TEST_CASE("windows: Phi-3.5-MoE has them in masks alone") {
  const std::string eight = window(8) + ", \"num_local_experts\": 2";
  CHECK(layers_with_windows("phimoe").empty());
  CHECK(flops_of_attention(lowered_with(model_with("phimoe", eight), "flash")) ==
        of_pairs({kCausal}));
  CHECK(flops_of_attention(lowered_with(model_with("phimoe", eight), "sdpa")) ==
        of_pairs({kSquare}));
}

TEST_CASE("windows: SDPA takes a mask where one is no longer than the sequence") {
  const Graph free = lowered_with(model_with("mistral", window(kSequence + 1)), "sdpa");
  CHECK(flops_of_attention(free) == of_pairs({kCausal}));
  CHECK(largest_named(free, "attention mask") == 0);

  const Graph masked = lowered_with(model_with("mistral", window(kSequence)), "sdpa");
  CHECK(flops_of_attention(masked) == of_pairs({kSquare}));
  CHECK(largest_named(masked, "causal mask") == kSquare);  // one boolean for all sequences
  CHECK(largest_named(masked, "attention mask") == 2 * 2 * kSquare);
  CHECK(largest_named(free, "value repeated") == 0);
  CHECK(largest_named(masked, "value repeated") == 2 * 2 * kSequence * 4 * 16);

  CHECK(flops_of_attention(lowered_with(model_with("gemma3_text", window(16)), "sdpa")) ==
        of_pairs({kCausal, kSquare}));
}

TEST_CASE("windows: eager attention has a mask of each kind of layer") {
  const Bytes each = Bytes{2} * 2 * kSquare;
  const auto sizes = [&](const char* type) {
    const Graph graph = lowered_with(model_with(type, window(16)), "eager");
    return std::pair{largest_named(graph, "causal mask"),
                     largest_named(graph, "causal mask with a window")};
  };
  CHECK(sizes("mistral") == std::pair{each, Bytes{0}});
  CHECK(sizes("gemma3_text") == std::pair{each, each});
  CHECK(sizes("ministral") == std::pair{each, each});  // whichever its layers read
  CHECK(sizes("llama") == std::pair{each, Bytes{0}});
  // Also where the model is cut to layers of one kind.
  ModelConfig cut = model_with("gemma3_text", window(16));
  cut.layers = 2;
  CHECK(largest_named(lowered_with(cut, "eager"), "causal mask with a window") == each);
}

TEST_CASE("Falcon gives SDPA a mask always, and with one key head runs no fused kernel") {
  const std::string grouped = ", \"new_decoder_architecture\": true, \"num_kv_heads\": 2";
  const Graph falcon40 = lowered_with(model_with("falcon", grouped), "sdpa");
  CHECK(flops_of_attention(falcon40) == of_pairs({kSquare}));
  CHECK(largest_named(falcon40, "attention mask") == 2 * 2 * kSquare);
  CHECK(flops_of_attention(lowered_with(model_with("falcon", grouped), "flash")) ==
        of_pairs({kCausal}));

  const Graph falcon7 = lowered_with(model_with("falcon", ""), "sdpa");
  CHECK(flops_of_attention(falcon7).empty());
  CHECK(largest_named(falcon7, "attention weights") == Bytes{2} * 2 * 4 * kSquare);
}

TEST_CASE("ALiBi is a tensor of all sequences in Falcon, and none in eager MPT") {
  const std::string mpt = ", \"d_model\": 64, \"n_heads\": 4, \"n_layers\": 2";
  const Bytes once = Bytes{2} * 4 * kSquare;
  CHECK(largest_named(lowered_with(model_with("mpt", mpt), "sdpa"), "ALiBi bias") == once);
  CHECK(largest_named(lowered_with(model_with("mpt", mpt), "eager"), "ALiBi bias") == 0);
  const std::string falcon = R"(, "alibi": true, "multi_query": false)";
  CHECK(largest_named(lowered_with(model_with("falcon", falcon), "sdpa"), "ALiBi bias") ==
        2 * once);
  CHECK(largest_named(lowered_with(model_with("falcon", falcon), "eager"), "ALiBi bias") ==
        2 * once);
}

}  // namespace foregather::test
