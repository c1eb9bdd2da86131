#include "tasks/validation/row_model.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "core/base/suggest.h"
#include "tasks/validation/words.h"

namespace foregather::tasks {
namespace {

using Json = nlohmann::ordered_json;
using Family = plan::ModelConfig::Family;

/// The dimensions of published config.json files (meta-llama, TinyLlama, Qwen). llama2_34b is the
/// shape of CodeLlama-34B with Llama-2's vocabulary, as measurements of "Llama-2 34B" use it.
struct Known {
  std::string_view name, type, architecture;
  std::int64_t hidden, layers, heads, kv_heads, intermediate, vocab, positions;
};

constexpr Known kKnown[] = {
    {"llama2_7b", "llama", "LlamaForCausalLM", 4096, 32, 32, 32, 11008, 32000, 4096},
    {"llama2_13b", "llama", "LlamaForCausalLM", 5120, 40, 40, 40, 13824, 32000, 4096},
    {"llama2_34b", "llama", "LlamaForCausalLM", 8192, 48, 64, 8, 22016, 32000, 4096},
    {"llama2_70b", "llama", "LlamaForCausalLM", 8192, 80, 64, 8, 28672, 32000, 4096},
    {"llama3_8b", "llama", "LlamaForCausalLM", 4096, 32, 32, 8, 14336, 128256, 8192},
    {"llama3_70b", "llama", "LlamaForCausalLM", 8192, 80, 64, 8, 28672, 128256, 8192},
    {"llama3_405b", "llama", "LlamaForCausalLM", 16384, 126, 128, 8, 53248, 128256, 8192},
    {"tinyllama_1.1b", "llama", "LlamaForCausalLM", 2048, 22, 32, 4, 5632, 32000, 2048},
    {"qwen3_14b", "qwen3", "Qwen3ForCausalLM", 5120, 40, 40, 8, 17408, 151936, 40960},
    {"qwen3_32b", "qwen3", "Qwen3ForCausalLM", 5120, 64, 64, 8, 25600, 151936, 40960},
};

std::string known_json(const Known& known) {
  Json json;
  json["architectures"] = {known.architecture};
  json["model_type"] = known.type;
  json["hidden_size"] = known.hidden;
  json["num_hidden_layers"] = known.layers;
  json["num_attention_heads"] = known.heads;
  json["num_key_value_heads"] = known.kv_heads;
  if (known.type == "qwen3") json["head_dim"] = 128;
  json["intermediate_size"] = known.intermediate;
  json["vocab_size"] = known.vocab;
  json["max_position_embeddings"] = known.positions;
  json["tie_word_embeddings"] = false;
  return json.dump(2);
}

// torchtitan's deepseek_v3 flavour "16B", in the keys of DeepSeek's config.json.
std::string deepseek_16b() {
  const Json json = {{"architectures", {"DeepseekV3ForCausalLM"}},
                     {"model_type", "deepseek_v3"},
                     {"hidden_size", 2048},
                     {"num_hidden_layers", 27},
                     {"num_attention_heads", 16},
                     {"num_key_value_heads", 16},
                     {"intermediate_size", 10944},
                     {"moe_intermediate_size", 1408},
                     {"n_routed_experts", 64},
                     {"n_shared_experts", 2},
                     {"num_experts_per_tok", 6},
                     {"first_k_dense_replace", 1},
                     {"q_lora_rank", nullptr},
                     {"kv_lora_rank", 512},
                     {"qk_nope_head_dim", 128},
                     {"qk_rope_head_dim", 64},
                     {"v_head_dim", 128},
                     {"vocab_size", 102400},
                     {"max_position_embeddings", 163840},
                     {"tie_word_embeddings", false}};
  return json.dump(2);
}

/// Reads the dimensions that a row gives and keeps what is wrong first.
class Dimensions {
 public:
  Dimensions(const Json& json, std::int64_t positions) : json_(json), positions_(positions) {}

  std::int64_t size(const char* key) {
    const auto found = json_.find(key);
    constexpr auto kMost = std::int64_t{1} << 40;
    if (found != json_.end() && found->is_number_integer() && found->get<double>() >= 1 &&
        found->get<double>() <= static_cast<double>(kMost))
      return found->get<std::int64_t>();
    if (error_.empty()) error_ = fmt::format("config: '{}' is no positive integer", key);
    return 1;
  }

  std::int64_t size_or(const char* key, std::int64_t absent) {
    return json_.contains(key) ? size(key) : absent;
  }
  std::int64_t positions() { return size_or("max_position_embeddings", positions_); }

  /// `key` as so many times `unit`.
  std::int64_t times(const char* key, std::int64_t unit) {
    const std::int64_t whole = size(key);
    if (whole % unit != 0 && error_.empty())
      error_ = fmt::format("config: '{}' {} is no multiple of {}", key, whole, unit);
    return whole / unit;
  }

  bool tied() {
    const auto found = json_.find("tie_word_embeddings");
    if (found == json_.end() || found->is_boolean())
      return found != json_.end() && found->get<bool>();
    if (error_.empty()) error_ = "config: 'tie_word_embeddings' is not true or false";
    return false;
  }

  const std::string& error() const { return error_; }

 private:
  const Json& json_;
  std::int64_t positions_;
  std::string error_;
};

Json llama(Dimensions& in) {
  return {
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"hidden_size", in.size("hidden_size")},
      {"num_hidden_layers", in.size("num_hidden_layers")},
      {"num_attention_heads", in.size("num_attention_heads")},
      {"num_key_value_heads", in.size_or("num_key_value_heads", in.size("num_attention_heads"))},
      {"intermediate_size", in.size("intermediate_size")},
      {"vocab_size", in.size("vocab_size")},
      {"max_position_embeddings", in.positions()},
      {"tie_word_embeddings", in.tied()}};
}

Json mpt(Dimensions& in) {
  const std::int64_t hidden = in.size("hidden_size");
  return {{"architectures", {"MptForCausalLM"}},
          {"model_type", "mpt"},
          {"d_model", hidden},
          {"n_layers", in.size("num_hidden_layers")},
          {"n_heads", in.size("num_attention_heads")},
          {"expansion_ratio", in.times("intermediate_size", hidden)},
          {"vocab_size", in.size("vocab_size")},
          {"max_seq_len", in.positions()},
          {"attn_config", {{"alibi", false}}},
          {"learned_pos_emb", true},
          {"no_bias", false},
          {"tie_word_embeddings", in.tied()}};
}

Json gpt_neox(Dimensions& in) {
  return {{"architectures", {"GPTNeoXForCausalLM"}},
          {"model_type", "gpt_neox"},
          {"hidden_size", in.size("hidden_size")},
          {"num_hidden_layers", in.size("num_hidden_layers")},
          {"num_attention_heads", in.size("num_attention_heads")},
          {"intermediate_size", in.size("intermediate_size")},
          {"vocab_size", in.size("vocab_size")},
          {"max_position_embeddings", in.positions()},
          {"rotary_pct", 0.25},
          {"use_parallel_residual", true},
          {"tie_word_embeddings", in.tied()}};
}

Result<RowModel> object_model(const std::string& config, std::int64_t positions) {
  const Json json = Json::parse(config, nullptr, false);
  if (!json.is_object()) return fail("config: not a name and not a JSON object");
  const auto family = json.find("family");
  if (family == json.end() || !family->is_string())
    return fail("config: 'family' is missing, expected llama, mpt or gpt_neox");
  const std::string name = lower(family->get<std::string>());
  Dimensions in(json, positions);
  RowModel model{Family::llama, {}};
  Json out;
  if (name == "llama") {
    out = llama(in);
  } else if (name == "mpt") {
    model = {Family::mpt, {}, true};
    out = mpt(in);
  } else if (name == "gpt_neox") {
    model = {Family::gpt_neox, {}, true};
    out = gpt_neox(in);
  } else {
    return fail("config: family {} is not known",
                family->dump(-1, ' ', true, Json::error_handler_t::replace));
  }
  if (!in.error().empty()) return fail("{}", in.error());
  model.json = out.dump(2);
  return model;
}

// Marks part numbers alone: "Llama-3 8B" is "llama3_8b", "Qwen3-1.4B" not "qwen3_14b".
std::string without_marks(std::string_view name) {
  const std::string text = lower(name);
  std::string all;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_mark = text[i] == '-' || text[i] == '_' || text[i] == ' ';
    const bool parts =
        i > 0 && i + 1 < text.size() && is_digit(text[i - 1]) && is_digit(text[i + 1]);
    if (!is_mark)
      all += text[i];
    else if (parts)
      all += '_';
  }
  return all;
}

// Llama 3.1 and 3.3 have the shapes of Llama 3, Llama 1 up to 13B those of Llama 2.
std::string known_name(std::string_view config) {
  constexpr std::pair<std::string_view, std::string_view> kSame[] = {
      {"llama3.1_8b", "llama3_8b"},   {"llama3.1_70b", "llama3_70b"},
      {"llama3.3_70b", "llama3_70b"}, {"llama3.1_405b", "llama3_405b"},
      {"llama7b", "llama2_7b"},       {"llama13b", "llama2_13b"}};
  std::string name = without_marks(config);
  for (const auto& [other, same] : kSame)
    if (name == other) return std::string(same);
  return name;
}

Result<RowModel> published_model(const std::string& config, std::int64_t positions) {
  if (config.empty() || config == "unknown")
    return fail("the dimensions of the model are not stated");
  if (config.starts_with('{')) return object_model(config, positions);
  const std::string name = known_name(config);
  if (name == without_marks("deepseek_v3_16b")) return RowModel{Family::deepseek, deepseek_16b()};
  for (const Known& known : kKnown)
    if (without_marks(known.name) == name) return RowModel{Family::llama, known_json(known)};
  std::vector<std::string_view> names;
  for (const Known& known : kKnown) names.push_back(known.name);
  return fail("model '{}' is not known{}", config.substr(0, 80), did_you_mean(config, names));
}

}  // namespace

Result<RowModel> model_of(const std::string& config, bool is_litgpt, std::int64_t positions) {
  auto model = published_model(config, positions);
  if (!model) return model;
  Json json = Json::parse(model->json);
  model->vocab = json.value("vocab_size", std::int64_t{0});
  model->hidden = json.value(json.contains("d_model") ? "d_model" : "hidden_size", std::int64_t{0});
  if (!is_litgpt || json["model_type"] != "llama") return model;
  json["fused_qkv"] = model->has_fused_qkv = true;
  model->json = json.dump(2);
  return model;
}

}  // namespace foregather::tasks
