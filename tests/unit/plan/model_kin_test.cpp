// What the configs of Llama's kin say of layers, multipliers and positions.
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

constexpr const char* kKinSizes =
    R"("hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
 "intermediate_size": 160, "vocab_size": 100)";

Result<ModelConfig> read_kin(const std::string& type, const std::string& more) {
  return read_model_config(
      TemporaryFile("{\"model_type\": \"" + type + "\", " + kKinSizes + ",\n" + more + "}").path());
}

ModelConfig kin(const std::string& type, const std::string& more = "\"use_cache\": true") {
  Result<ModelConfig> config = read_kin(type, more);
  if (!config) FAIL(config.error().text());
  return *config;
}

std::string complaint_of_kin(const std::string& type, const std::string& more) {
  const Result<ModelConfig> config = read_kin(type, more);
  return config ? "no error" : config.error().text();
}

Train small_train() {
  Train train;
  train.micro_batch = 2;
  train.seq_len = 64;
  return train;
}

std::int64_t count_of(const Tape& tape, const std::string& name) {
  return std::count_if(tape.values.begin(), tape.values.end(),
                       [&](const Value& value) { return value.name == name; });
}

using Layers = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("layers without positions are every fourth, or those that the config names") {
  CHECK(kin("smollm3").unrotated == Layers{3});
  CHECK(kin("smollm3", R"("no_rope_layers": null)").unrotated == Layers{3});
  CHECK(kin("smollm3", R"("no_rope_layer_interval": 2)").unrotated == Layers{1, 3});
  CHECK(kin("smollm3", R"("no_rope_layers": [1, 0, 0, 1])").unrotated == Layers{1, 2});
  CHECK_THAT(complaint_of_kin("smollm3", R"("no_rope_layers": [1, 1])"),
             Catch::Contains("3:1: 'no_rope_layers' has 2 values for 4 layers, expected"));
  CHECK(kin("cohere2").unrotated == Layers{3});
  CHECK(kin("cohere2", R"("layer_types": ["full_attention", "sliding_attention",
 "full_attention", "sliding_attention"])")
            .unrotated == Layers{0, 2});
  CHECK_THAT(complaint_of_kin("cohere2", R"("layer_types": [])"),
             Catch::Contains("'layer_types' has 0 values"));
}

TEST_CASE("layers with and without positions are blocks of two kinds") {
  const Model model = build_model(kin("smollm3"), small_train());
  REQUIRE(model.modules.size() == 6);
  CHECK(model.modules[1].tape == model.modules[2].tape);
  CHECK(model.modules[4].tape != model.modules[1].tape);
  const auto turned = [&](std::size_t module) {
    return count_of(model.tapes[model.modules[module].tape], "query with positions");
  };
  CHECK(turned(1) == 1);
  CHECK(turned(4) == 0);
}

TEST_CASE("transformers 5 writes the rotated part among the rope_parameters") {
  CHECK(kin("phi", R"("rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25})")
            .rotary_dim == 4);
  CHECK(kin("phi", R"("partial_rotary_factor": 0.75, "rope_parameters": {})").rotary_dim == 12);
  CHECK(kin("phi", R"("rope_parameters": {})").rotary_dim == 8);
  CHECK_THAT(complaint_of_kin("phi", R"("rope_parameters": {"partial_rotary_factor": 0.2})"),
             Catch::Contains("'rope_parameters.partial_rotary_factor' = 0.2"));
}

TEST_CASE("OPT-350M's norms and embeddings are refused") {
  const std::string opt = R"("ffn_dim": 160, )";
  CHECK(kin("opt", opt + R"("dropout": 0.0)").position_rows == 2050);
  CHECK_THAT(complaint_of_kin("opt", opt + R"("do_layer_norm_before": false)"),
             Catch::Contains("'do_layer_norm_before' is false, expected true"));
  CHECK_THAT(complaint_of_kin("opt", opt + R"("word_embed_proj_dim": 32)"),
             Catch::Contains("'word_embed_proj_dim' is not the hidden size"));
  CHECK_THAT(complaint_of_kin("opt", opt + R"("layer_norm_elementwise_affine": false)"),
             Catch::EndsWith("'layer_norm_elementwise_affine' is false, expected true: norms "
                             "without weights are not simulated"));
}

TEST_CASE("RoBERTa's first position is 2, and llm-foundry's MPT may have one key head") {
  CHECK(kin("roberta", R"("max_position_embeddings": 3)").max_positions == 1);
  CHECK_THAT(complaint_of_kin("roberta", R"("max_position_embeddings": 2)"),
             Catch::EndsWith("'max_position_embeddings' is 2, expected 3 or more: RoBERTa's first "
                             "position is 2"));
  const auto key_heads = [](const std::string& attention) {
    return kin("mpt", R"("attn_config": {"attn_type": )" + attention + "}").kv_heads;
  };
  CHECK(key_heads(R"("multihead_attention")") == 4);
  CHECK(key_heads(R"("multiquery_attention")") == 1);
  CHECK(key_heads(R"("grouped_query_attention", "kv_n_heads": 2)") == 2);
}

TEST_CASE("parts of models that see images have to be what they stand for") {
  CHECK_THAT(complaint_of_kin("llava", R"("vision_config": {})"),
             Catch::EndsWith("'vision_config' or 'text_config' is missing, expected both objects"));
  const std::string tower = R"({"model_type": "siglip_vision_model", "image_size": 32,
 "patch_size": 16, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
 "intermediate_size": 128})";
  CHECK_THAT(complaint_of_kin("gemma3", "\"text_config\": " + tower + ", \"vision_config\": {}"),
             Catch::EndsWith("'text_config' is expected to be a language model"));
}

TEST_CASE("what LLaVA's config says of its features is followed, or named") {
  const auto llava = [](const std::string& more) {
    return kin("llava", R"("vision_config": {"model_type": "clip_vision_model", "image_size": 32,
 "patch_size": 16, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
 "intermediate_size": 128}, "text_config": {"model_type": "llama", "hidden_size": 64,
 "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 160, "vocab_size": 100})" +
                            more);
  };
  const auto patches = [&](const std::string& more) {
    const ModelConfig::Image image = llava(more).towers.front().image;
    return image.tokens() - image.dropped;
  };
  CHECK(patches("") == 4);
  CHECK(patches(R"(, "vision_feature_select_strategy": "default")") == 4);
  CHECK(patches(R"(, "vision_feature_select_strategy": "full")") == 5);
  const auto named = [&](const std::string& more) { return llava(more).left_out.size(); };
  CHECK(named("") == 0);
  CHECK(named(R"(, "vision_feature_layer": -2, "multimodal_projector_bias": true)") == 0);
  CHECK(named(R"(, "vision_feature_layer": -1)") == 0);
  CHECK(named(R"(, "vision_feature_layer": -3)") == 1);
  CHECK(named(R"(, "vision_feature_select_strategy": "full")") == 0);
  CHECK(named(R"(, "vision_feature_select_strategy": "half")") == 1);
  CHECK(named(R"(, "vision_feature_layer": [-2, -5], "multimodal_projector_bias": false)") == 2);
}

TEST_CASE("features come from the last block but one, or from the last") {
  const auto idle = [](const std::string& more, std::int64_t layers) {
    const Model model = build_model(
        kin("llava", R"("vision_config": {"model_type": "clip_vision_model", "image_size": 32,
 "patch_size": 16, "hidden_size": 64, "num_hidden_layers": )" +
                         std::to_string(layers) + R"(, "num_attention_heads": 4,
 "intermediate_size": 128}, "text_config": {"model_type": "llama", "hidden_size": 64,
 "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 160, "vocab_size": 100})" +
                         more),
        small_train());
    std::vector<std::string> paths;
    for (const Module& module : model.modules) {
      const Tape& tape = model.tapes[module.tape];
      if (!tape.is_idle) continue;
      CHECK(malformed(tape) == "");
      CHECK(module.is_block);
      CHECK(tape.backward.empty());
      CHECK(std::ranges::all_of(tape.parameters, &Parameter::is_unused));
      paths.push_back(module.path);
    }
    return paths;
  };
  using Paths = std::vector<std::string>;
  const std::string last = "vision_tower_1.encoder.layers.";
  CHECK(idle("", 2) == Paths{last + "1"});
  CHECK(idle("", 1) == Paths{last + "0"});
  CHECK(idle(R"(, "vision_feature_layer": -1)", 2).empty());
}

TEST_CASE("a loss in parts multiplies Granite's logits and adds Phi's bias") {
  Train train = small_train();
  train.loss_chunks = 4;
  const Tape granite = build_model(kin("granite"), train).tapes.back();
  CHECK(malformed(granite) == "");
  // Of each part in forward and, anew, in backward.
  CHECK(count_of(granite, "logits of a part, scaled") == 8);
  CHECK(count_of(granite, "grad logits, unscaled") == 4);
  const Tape phi = build_model(kin("phi"), train).tapes.back();
  CHECK(malformed(phi) == "");
  CHECK(count_of(phi, "grad lm_head.bias") == 1);
  CHECK(count_of(phi, "grad bias of a part") == 4);
  CHECK(count_of(phi, "logits of a part, scaled") == 0);
}

TEST_CASE("of models that see images the language model is read alone, with a warning") {
  const ModelConfig flat = kin("qwen2_5_vl", R"("num_key_value_heads": 2, "vision_config": {},
 "tie_word_embeddings": true, "quantization_config": {"bits": 4})");
  CHECK(flat.model_type == "qwen2_5_vl");
  CHECK(flat.qkv_bias);
  CHECK(flat.tied_embeddings);
  CHECK(flat.towers.empty());
  REQUIRE(flat.left_out.size() == 2);
  CHECK_THAT(flat.left_out[0],
             Catch::Contains("'vision_config' has no effect: the language model"));
  CHECK_THAT(flat.left_out[1], Catch::Contains("'quantization_config' has no effect"));
  // Files of transformers 4.5x repeat the architecture in the section.
  const ModelConfig section = kin("qwen2_vl", R"("text_config": {"model_type": "qwen2_vl_text",
 "architectures": ["Qwen2VLForConditionalGeneration"], "hidden_size": 128}, "vision_config": {})");
  CHECK(section.hidden == 128);
  CHECK(section.layers == 80);
  const ModelConfig gemma = kin("gemma3", R"("text_config": {"model_type": "gemma3_text"})");
  CHECK(gemma.tied_embeddings);
  CHECK(gemma.window == 4096);
  CHECK(gemma.left_out.size() == 1);
}
