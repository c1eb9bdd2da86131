// config.json files: the counts of published models, the defaults, and what is wrong with bad ones.
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/places.h"
#include "tests/support/skip.h"
#include "tests/unit/plan/model_live_bytes.h"
#include "tests/unit/plan/temporary_file.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;
namespace fs = std::filesystem;

namespace {

Result<ModelConfig> read_text(const std::string& text) {
  return read_model_config(TemporaryFile(text).path());
}

ModelConfig good(const std::string& text) {
  Result<ModelConfig> config = read_text(text);
  if (!config) FAIL(config.error().text());
  return *config;
}

/// "LINE:COL: message" of the error that `text` gives.
std::string complaint(const std::string& text) {
  const TemporaryFile file(text);
  const Result<ModelConfig> config = read_model_config(file.path());
  if (config) return "no error";
  CHECK(config.error().fault == Fault::input);
  const std::string line = config.error().text();
  CHECK(line.find('\n') == std::string::npos);
  CHECK(line.size() < 900);
  CHECK(line.find("expected") != std::string::npos);
  if (line.compare(0, file.path().size() + 1, file.path() + ":") != 0) return "no place: " + line;
  return line.substr(file.path().size() + 1);
}

/// A good Llama config with one line in place of another's key.
std::string llama_with(const std::string& key, const std::string& value) {
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"architectures", "[\"LlamaForCausalLM\"]"},
      {"model_type", "\"llama\""},
      {"hidden_size", "64"},
      {"num_hidden_layers", "2"},
      {"num_attention_heads", "4"},
      {"num_key_value_heads", "2"},
      {"intermediate_size", "160"},
      {"vocab_size", "100"},
  };
  std::string text = "{\n";
  bool replaced = false;
  for (const auto& [name, content] : lines) {
    if (name == key && value.empty()) {
      replaced = true;
      continue;
    }
    if (text.size() > 2) text += ",\n";
    text += "  \"" + name + "\": " + (name == key ? value : content);
    replaced = replaced || name == key;
  }
  if (!replaced) text += ",\n  \"" + key + "\": " + value;
  return text + "\n}\n";
}

}  // namespace

TEST_CASE("sample configs have the published parameter counts") {
  CHECK(count_parameters(sample("llama3_8b")) == 8'030'261'248);
  CHECK(count_parameters(sample("llama3_70b")) == 70'553'706'496);
  CHECK(count_parameters(sample("llama2_7b")) == 6'738'415'616);
  CHECK(count_parameters(sample("gpt2")) == 124'439'808);
  CHECK(count_parameters(sample("tiny_llama")) < 2'000'000);
}

TEST_CASE("counts by hand") {
  // Mistral-7B-v0.3: its vocabulary has 768 rows more than Llama 2's, its key heads are 8.
  CHECK(count_parameters(good(R"({"architectures": ["MistralForCausalLM"], "hidden_size": 4096,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
      "intermediate_size": 14336, "vocab_size": 32768})")) == 7'248'023'552);
  CHECK(count_parameters(good(R"({"architectures": ["Qwen2ForCausalLM"], "hidden_size": 3584,
      "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
      "intermediate_size": 18944, "vocab_size": 152064})")) == 7'615'616'512);
  CHECK(count_parameters(good(R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 1280,
      "n_layer": 36, "n_head": 20, "vocab_size": 50257, "n_positions": 1024})")) == 774'030'080);
}

TEST_CASE("configs of published models read and count as transformers counts them") {
  if (!shared_data("configs/hf")) FOREGATHER_SKIP("the shared configs are absent");
  std::ifstream file(test::source_dir() + "/tests/oracles/data/parameter_counts.json");
  const nlohmann::json counts = nlohmann::json::parse(file);
  int known = 0;
  for (const auto& [name, row] : counts["models"].items()) {
    auto path = shared_data("configs/hf/" + name);
    if (!path) path = shared_data("configs/hf_transcribed/" + name);
    if (!path) continue;
    INFO(name);
    const Result<ModelConfig> config = read_model_config(path->string());
    if (!config) FAIL(config.error().text());
    CHECK(count_parameters(*config) == row["total"].get<std::int64_t>());
    ++known;
  }
  CHECK(known >= 15);
}

TEST_CASE("every family counts as transformers counts it") {
  std::ifstream file(test::source_dir() + "/tests/oracles/data/family_counts.json");
  const nlohmann::json counts = nlohmann::json::parse(file);
  for (const auto& [name, row] : counts["models"].items()) {
    INFO(name);
    const Result<ModelConfig> config = read_text(row["config"].dump());
    if (!config) FAIL_CHECK(config.error().text());
    if (config) CHECK(count_parameters(*config) == row["total"].get<std::int64_t>());
  }
  CHECK(counts["models"].size() >= 30);
}

TEST_CASE(
    "configs of further published models have the counts that their cards or checkpoints state") {
  const std::vector<std::pair<std::string, std::int64_t>> cases = {
      // Qwen2.5-14B
      {R"({"model_type": "qwen2", "hidden_size": 5120, "intermediate_size": 13824,
          "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8,
          "vocab_size": 152064, "tie_word_embeddings": false})",
       14'770'033'664},
      // Gemma-2-27B
      {R"({"model_type": "gemma2", "hidden_size": 4608, "intermediate_size": 36864,
          "num_hidden_layers": 46, "num_attention_heads": 32, "num_key_value_heads": 16,
          "head_dim": 128, "vocab_size": 256000, "hidden_activation": "gelu_pytorch_tanh"})",
       27'227'128'320},
      // Llama-3.2-3B
      {R"({"model_type": "llama", "hidden_size": 3072, "intermediate_size": 8192,
          "num_hidden_layers": 28, "num_attention_heads": 24, "num_key_value_heads": 8,
          "head_dim": 128, "vocab_size": 128256, "tie_word_embeddings": true})",
       3'212'749'824},
      // Mistral-Nemo
      {R"({"model_type": "mistral", "hidden_size": 5120, "intermediate_size": 14336,
          "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8,
          "head_dim": 128, "vocab_size": 131072, "max_position_embeddings": 1024000,
          "sliding_window": null})",
       12'247'782'400},
      // Pythia-6.9b
      {R"({"model_type": "gpt_neox", "hidden_size": 4096, "intermediate_size": 16384,
          "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 50432, "rotary_pct":
          0.25, "tie_word_embeddings": false})",
       6'857'302'016},
      // Yi-34B
      {R"({"model_type": "llama", "hidden_size": 7168, "intermediate_size": 20480,
          "num_hidden_layers": 60, "num_attention_heads": 56, "num_key_value_heads": 8,
          "vocab_size": 64000})",
       34'388'917'248},
      // DeepSeek-V2
      {R"({"model_type": "deepseek_v2", "hidden_size": 5120, "intermediate_size": 12288,
          "num_hidden_layers": 60, "num_attention_heads": 128, "num_key_value_heads": 128,
          "vocab_size": 102400, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim":
          128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 160,
          "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_intermediate_size": 1536,
          "first_k_dense_replace": 1})",
       235'741'434'880},
      // gpt2-xl
      {R"({"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25, "vocab_size":
          50257, "n_positions": 1024, "n_ctx": 1024})",
       1'557'611'200},
  };
  for (const auto& [text, count] : cases) {
    INFO(text);
    CHECK(count_parameters(good(text)) == count);
  }
}

TEST_CASE("what a config leaves out is as in transformers") {
  const ModelConfig llama = good(llama_with("num_key_value_heads", ""));
  CHECK(llama.kv_heads == 4);
  CHECK(llama.head_dim == 16);
  CHECK(llama.max_positions == 2048);
  CHECK_FALSE(llama.tied_embeddings);
  CHECK_FALSE(llama.qkv_bias);
  CHECK(good(llama_with("num_key_value_heads", "null")).kv_heads == 4);
  CHECK(good(llama_with("head_dim", "32")).head_dim == 32);
  const ModelConfig biased = good(llama_with("attention_bias", "true"));
  CHECK(biased.qkv_bias);
  CHECK(biased.output_bias);
  CHECK_FALSE(biased.mlp_bias);
  CHECK(good(llama_with("tie_word_embeddings", "true")).tied_embeddings);

  const std::string sizes = R"("hidden_size": 4096, "num_hidden_layers": 2,
      "num_attention_heads": 32, "intermediate_size": 160, "vocab_size": 100})";
  const ModelConfig mistral = good(R"({"model_type": "mistral", )" + sizes);
  CHECK(mistral.kv_heads == 8);
  CHECK(mistral.max_positions == 131072);
  const ModelConfig qwen2 = good(R"({"model_type": "qwen2", )" + sizes);
  CHECK(qwen2.kv_heads == 32);
  CHECK(qwen2.qkv_bias);
  CHECK_FALSE(qwen2.output_bias);
  const ModelConfig qwen3 = good(R"({"model_type": "qwen3", )" + sizes);
  CHECK(qwen3.head_dim == 128);
  CHECK(qwen3.qk_norm);

  const ModelConfig gpt2 =
      good(R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 9})");
  CHECK(gpt2.intermediate == 256);
  CHECK(gpt2.max_positions == 1024);
  CHECK(gpt2.tied_embeddings);
  CHECK(gpt2.residual_dropout == 0.1);
  const std::string dropout = R"("embd_pdrop": 0.1, "resid_pdrop": 0.1, )";
  CHECK(good(R"({"model_type": "phi", )" + dropout + sizes).embedding_dropout == 0.1);
  const ModelConfig phi3 = good(R"({"model_type": "phi3", )" + dropout + sizes);
  CHECK(phi3.embedding_dropout == 0);  // Phi3Model has none
  CHECK(phi3.residual_dropout == 0.1);
  CHECK_FALSE(gpt2.fused_gelu);
}

TEST_CASE("bad configs say where and what to do") {
  struct Case {
    std::string text;
    std::string starts;    // "LINE:COL: …"
    std::string contains;  // the remedy
  };
  const std::string good_text = llama_with("vocab_size", "100");
  const std::vector<Case> cases = {
      {"", "1:1: not valid JSON", "config.json"},
      {good_text.substr(0, 60), "3:18: not valid JSON", "missing closing quote"},
      {good_text.substr(0, good_text.size() - 3), "9:20: not valid JSON", "expected '}'"},
      {"\x93\xff\x01\xfe random \n bytes", "1:1: not valid JSON", "expected"},
      {std::string("{\"a\0b\": 1}", 10), "1:4: not valid JSON", "control character"},
      {std::string(200'000, '['), "1:200001: not valid JSON", "unexpected end"},
      {std::string(300'000, '{'), "1:2: not valid JSON", "expected string literal"},
      {"[1, 2]", "1:1: this is a JSON array", "expected the object"},
      {"17", "1:1: this is a JSON number", "expected the object"},
      {"{}", "1:1: neither 'architectures' nor 'model_type'", "LlamaForCausalLM"},
      {llama_with("architectures", "[\"LamaForCausalLM\"]"),
       "2:3: unknown architecture \"LamaForCausalLM\"", "did you mean 'LlamaForCausalLM'?"},
      {llama_with("architectures", "[\"RwkvForCausalLM\"]"), "2:3: unknown architecture",
       "record others (docs/sidecar.md) or spell them out (model.tree)"},
      {llama_with("architectures", "[]"), "2:3: 'architectures' is a list", "model class"},
      {llama_with("architectures", "\"LlamaForCausalLM\""), "2:3: 'architectures' is", "a list"},
      {llama_with("model_type", "\"gpt2\""), "3:3: 'model_type' is \"gpt2\"", "\"llama\""},
      {llama_with("model_type", "3"), "3:3: 'model_type' is 3", "expected a string"},
      {R"({"model_type": "gpt3"})", "1:2: unknown model_type", "did you mean 'gpt2'?"},
      {R"({"model_type": "mamba2"})", "1:2: unknown model_type", "(docs/sidecar.md)"},
      {R"({"model_type": "idefics3", "text_config": {}})", "1:2: unknown model_type",
       "or give the text_config as a file of its own"},
      {R"({"model_type": "mistral3"})", "1:1: 'text_config' is missing", "language model's object"},
      {R"({"model_type": "gemma3", "text_config": {"model_type": "idefics3_text"}})",
       "1:42: unknown model_type \"idefics3_text\"", "expected one of"},
      {R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}, "vision_config": 3})",
       "1:72: 'vision_config' is 3", "an object"},
      {llama_with("hidden_size", ""), "1:1: 'hidden_size' is missing", "integer"},
      {llama_with("hidden_size", "\"64\""), "4:3: 'hidden_size' is \"64\"", "an integer of 1"},
      {llama_with("hidden_size", "64.0"), "4:3: 'hidden_size' is 64.0", "an integer of 1"},
      {llama_with("hidden_size", "-64"), "4:3: 'hidden_size' is -64", "an integer of 1"},
      {llama_with("hidden_size", "0"), "4:3: 'hidden_size' is 0", "an integer of 1"},
      {llama_with("hidden_size", "true"), "4:3: 'hidden_size' is true", "an integer of 1"},
      {llama_with("hidden_size", "[64]"), "4:3: 'hidden_size' is a list", "an integer of 1"},
      {llama_with("hidden_size", "16777217"), "4:3: 'hidden_size' is 16777217", "16777216"},
      {llama_with("hidden_size", "18446744073709551615"), "4:3: 'hidden_size' is", "16777216"},
      {llama_with("hidden_size", "99999999999999999999999"), "4:3: 'hidden_size' is 9.99",
       "an integer"},
      {llama_with("hidden_size", "1e999"), "1:1: not valid JSON", "config.json"},
      {llama_with("hidden_size", "NaN"), "4:18: not valid JSON", "expected"},
      {llama_with("hidden_size", "66"), "6:3: 'num_attention_heads' = 4 does not divide",
       "a divisor or a 'head_dim'"},
      {llama_with("num_hidden_layers", "4097"), "5:3: 'num_hidden_layers' is 4097", "1 to 4096"},
      {llama_with("num_key_value_heads", "3"), "7:3: 'num_key_value_heads' = 3", "a divisor"},
      {llama_with("num_key_value_heads", "8"), "7:3: 'num_key_value_heads' = 8", "a divisor"},
      {llama_with("head_dim", "15"), "10:3: the head dimension is 15", "even"},
      {llama_with("tie_word_embeddings", "1"), "10:3: 'tie_word_embeddings' is 1", "true or false"},
      {llama_with("attention_dropout", "1.5"), "10:3: 'attention_dropout' is 1.5", "below 1"},
      {llama_with("hidden_act", "\"mish\""), "10:3: 'hidden_act' is \"mish\"", "silu"},
      {llama_with("rope_scaling", "{\"hidden_act\": 1}, \"hidden_act\": \"mish\""),
       "10:38: 'hidden_act' is \"mish\"", "silu"},
      {llama_with("rope_scaling", "{\"vocab_size\": 1}, \"vocab_size\": 9"),
       "10:38: the key \"vocab_size\" is given twice", "9:3"},
      {R"({"model_type": "llama", "hidden_size": 16777216, "num_hidden_layers": 4096,
 "num_attention_heads": 8, "intermediate_size": 16777216, "vocab_size": 16777216})",
       "1:25: these sizes make a model", "smaller"},
      {R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 7, "vocab_size": 9})",
       "1:52: 'n_head' = 7 does not divide", "a divisor"},
      {R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 9,
 "activation_function": "mish"})",
       "2:2: 'activation_function' is \"mish\"", "gelu_new"},
  };
  for (const Case& c : cases) {
    INFO(c.text.substr(0, 300));
    const std::string got = complaint(c.text);
    CHECK_THAT(got, Catch::StartsWith(c.starts));
    CHECK_THAT(got, Catch::Contains(c.contains));
  }
}

TEST_CASE("bad configs of other families say where and what to do") {
  const auto with = [](const std::string& head, const std::string& more) {
    return "{" + head + ",\n " + more + "}";
  };
  const std::string llama_sizes =
      R"("hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
 "intermediate_size": 160, "vocab_size": 100)";
  const std::string mixtral = R"("model_type": "mixtral", )" + llama_sizes;
  const std::string neox = R"("model_type": "gpt_neox", )" + llama_sizes;
  const std::string deepseek = R"("model_type": "deepseek_v3", )" + llama_sizes;
  const std::string qwen = R"("model_type": "qwen3_moe", )" + llama_sizes;
  const std::string falcon =
      R"("model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 2,
 "num_attention_heads": 4, "vocab_size": 100)";
  const std::string mpt = R"("model_type": "mpt", "d_model": 64, "n_layers": 2, "n_heads": 4,
 "vocab_size": 100)";
  const std::string vit = R"("model_type": "vit", "hidden_size": 64, "num_hidden_layers": 2,
 "num_attention_heads": 4, "intermediate_size": 160)";
  const std::string llava = R"("architectures": ["LlavaForConditionalGeneration"],
 "text_config": {"model_type": "llama"})";
  const std::string openvla = R"("model_type": "openvla", "text_config": {"model_type": "llama"})";
  struct Case {
    std::string text, starts, contains;
  };
  const std::vector<Case> cases = {
      {with(mixtral, R"("num_local_experts": 0)"), "3:2: 'num_local_experts' is 0", "1 to"},
      {with(mixtral, R"("num_local_experts": "8")"), "3:2: 'num_local_experts' is \"8\"", "1 to"},
      {with(mixtral, R"("num_local_experts": 2, "num_experts_per_tok": 3)"),
       "3:26: 'num_experts_per_tok' = 3 of 2 experts", "at most"},
      {with(mixtral, R"("num_experts_per_tok": 0)"), "3:2: 'num_experts_per_tok' is 0", "1 to"},
      {with(qwen, R"("num_key_value_heads": 2, "num_experts": 0)"), "3:28: 'num_experts' is 0",
       "1 to"},
      {with(qwen, R"("num_key_value_heads": 2, "mlp_only_layers": [-1])"),
       "3:28: 'mlp_only_layers' is a list", "integers from 0"},
      {with(qwen, R"("num_key_value_heads": 2, "mlp_only_layers": 1)"),
       "3:28: 'mlp_only_layers' is 1", "a list of integers"},
      {with(deepseek, R"("n_routed_experts": 0)"), "3:2: 'n_routed_experts' is 0", "1 to"},
      {with(deepseek, R"("kv_lora_rank": 0)"), "3:2: 'kv_lora_rank' is 0", "1 to"},
      {with(deepseek, R"("qk_rope_head_dim": 63)"), "3:2: 'qk_rope_head_dim' is 63", "even"},
      {with(deepseek, R"("moe_layer_freq": 2)"), "3:2: 'moe_layer_freq' is 2", "expected 1"},
      {with(deepseek, R"("first_k_dense_replace": -1)"), "3:2: 'first_k_dense_replace' is -1",
       "0 to"},
      {with(neox, R"("rotary_pct": 2)"), "3:2: 'rotary_pct' is 2", "a number from"},
      {with(neox, R"("rotary_pct": 0.2)"), "3:2: 'rotary_pct' = 0.2", "an even number"},
      {with(neox, R"("use_parallel_residual": "yes")"), "3:2: 'use_parallel_residual'",
       "true or false"},
      {with(neox, R"("hidden_act": "tanhexp")"), "3:2: 'hidden_act' is \"tanhexp\"",
       "\"gelu_new\""},
      {with(falcon, R"("bias": 1)"), "3:2: 'bias' is 1", "true or false"},
      {with(falcon, R"("new_decoder_architecture": true, "num_kv_heads": 3)"),
       "3:36: 'num_kv_heads' = 3 does not divide", "a divisor"},
      {with(falcon, R"("num_ln_in_parallel_attn": 3)"), "3:2: 'num_ln_in_parallel_attn' is 3",
       "1 to 2"},
      {with(mpt, R"("attn_config": 7)"), "3:2: 'attn_config' is 7", "an object"},
      {with(mpt, R"("attn_config": {"alibi": 7})"), "3:18: 'attn_config.alibi' is 7",
       "true or false"},
      {with(mpt, R"("attn_config": {"rope": true})"), "3:18: 'attn_config.rope'", "not simulated"},
      {with(mpt, R"("attn_config": {"qk_ln": true})"), "3:18: 'attn_config.qk_ln'",
       "not simulated"},
      {with(mpt, R"("attn_config": {"attn_type": "grouped_query_attention", "kv_n_heads": 3})"),
       "3:58: 'attn_config.kv_n_heads' = 3 does not divide", "a divisor"},
      {with(mpt, R"("attn_config": {"attn_type": "linear_attention"})"),
       "3:18: 'attn_config.attn_type'", "expected multihead_"},
      {with(mpt, R"("ffn_config": {"ffn_type": "mptglu"})"), "3:17: 'ffn_config.ffn_type'",
       "expected mptmlp"},
      {with(mpt, R"("expansion_ratio": 0)"), "3:2: 'expansion_ratio' is 0", "1 to"},
      {with(vit, R"("patch_size": 0)"), "3:2: 'patch_size' is 0", "1 to"},
      {with(vit, R"("image_size": 8)"), "1:1: 'patch_size' = 16 is larger", "smaller"},
      {with(vit, R"("image_size": [])"), "3:2: 'image_size' is a list", "integers of 1"},
      {with(llava, R"("vision_config": 3)"), "3:2: 'vision_config' is 3", "an object"},
      {with(llava, R"("vision_config": {"model_type": "vit", "hidden_size": 65})"),
       "3:2: 'vision_config.num_attention_heads' = 12 does not divide", "a divisor"},
      {with(llava, R"("vision_config": {"model_type": "vit", "hidden_size": "x"})"),
       "3:41: 'vision_config.hidden_size' is \"x\"", "1 to"},
      {with(llava, R"("vision_config": {"model_type": "llama"})"), "3:2: 'vision_config' and",
       "a vision tower"},
      {with(openvla, R"("timm_model_ids": ["resnet"], "image_sizes": [224])"),
       "2:2: unknown vision tower \"resnet\"", "vit_large"},
      {with(openvla,
            R"("timm_model_ids": ["vit_large_patch14_reg4_dinov2.lvd142m"], "image_sizes": [0])"),
       "2:63: 'image_sizes' has 0", "at least the 14 pixels of a patch"},
      {with(openvla, R"("timm_model_ids": 3)"), "2:2: 'timm_model_ids' is 3", "a list of strings"},
  };
  for (const Case& c : cases) {
    INFO(c.text);
    const std::string got = complaint(c.text);
    CHECK_THAT(got, Catch::StartsWith(c.starts));
    CHECK_THAT(got, Catch::Contains(c.contains));
  }
}

TEST_CASE("each key of each family refuses a wrong type under its name") {
  std::ifstream file(test::source_dir() + "/tests/oracles/data/family_counts.json");
  const nlohmann::json counts = nlohmann::json::parse(file);
  int refused = 0;
  for (const auto& [name, row] : counts["models"].items()) {
    for (const auto& [key, value] : row["config"].items()) {
      // Read by no one here: names for people, and keys of other programs.
      if (key == "hf_llm_id" || key == "llm_max_length" || key == "id2label" || value.is_null())
        continue;
      for (const char* wrong : {R"({"a": 1})", R"(["x", {}])", R"(-7)", R"("\u0001")", "1e300"}) {
        nlohmann::json config = row["config"];
        config[key] = nlohmann::json::parse(wrong);
        if (config[key].type() == value.type()) continue;
        INFO(name << " " << key << " " << wrong);
        const Result<ModelConfig> read = read_text(config.dump(1));
        CHECK_FALSE(read);
        if (read) continue;
        ++refused;
        CHECK_THAT(read.error().text(), Catch::Contains("'" + key + "'"));
        CHECK_THAT(read.error().text(), Catch::Contains("expected"));
      }
    }
  }
  CHECK(refused > 1000);
}

TEST_CASE("keys that nothing follows are checked too") {
  for (const char* key : {"rope_theta", "rms_norm_eps", "initializer_range", "use_cache",
                          "torch_dtype", "transformers_version", "rope_scaling", "pretraining_tp",
                          "sliding_window", "bos_token_id", "quantization_config"}) {
    INFO(key);
    CHECK_THAT(complaint(llama_with(key, R"([{"a": 1}])")),
               Catch::Contains("'" + std::string(key) + "' is a list"));
    CHECK_THAT(complaint(llama_with(key, "-7e30")), Catch::Contains("10:3: '" + std::string(key)));
    good(llama_with(key, "null"));
  }
  good(llama_with("rope_scaling", R"({"rope_type": "llama3", "factor": 8.0})"));
  good(llama_with("eos_token_id", "[1, 2]"));
}

TEST_CASE("a config that is no file of reasonable size is an input error") {
  const auto fails = [](const std::string& path) {
    const Result<ModelConfig> config = read_model_config(path);
    REQUIRE_FALSE(config.has_value());
    CHECK(config.error().fault == Fault::input);
    CHECK_THAT(config.error().text(), Catch::Contains(path));
  };
  fails("/nowhere/at/all/config.json");
  fails(fs::temp_directory_path().string());
  fails(TemporaryFile(std::string((1 << 20) + 1, ' ')).path());
  fails("");
}

TEST_CASE("batches beyond counting are refused") {
  const ModelConfig llama = sample("llama3_8b");
  Train train;
  train.seq_len = 8192;
  CHECK(check_model_size(llama, train));
  train.micro_batch = 1'000'000'000;
  CHECK_FALSE(check_model_size(llama, train));
  train.micro_batch = 1;
  train.seq_len = 1 << 20;
  CHECK(check_model_size(llama, train));
  train.seq_len = 1 << 24;
  CHECK_FALSE(check_model_size(llama, train));
  train.seq_len = 2048;
  CHECK_FALSE(check_model_size(sample("gpt2"), train));
}
