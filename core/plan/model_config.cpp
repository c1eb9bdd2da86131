#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "core/base/file.h"
#include "core/base/suggest.h"
#include "core/plan/model.h"

namespace foregather::plan {

namespace {

using Json = nlohmann::json;

constexpr Bytes kLongestConfig = 1 * MiB;
constexpr std::int64_t kLargestSize = std::int64_t{1} << 24;
constexpr std::int64_t kMostLayers = 4096;
constexpr std::int64_t kMostParameters = 10'000'000'000'000;  // ten trillion

// --- places ---

/// "FILE:LINE:COL" of a byte; columns count bytes from 1.
std::string place_of(const std::string& path, std::string_view text, std::size_t offset) {
  offset = std::min(offset, text.size());
  std::size_t line = 1;
  std::size_t start = 0;
  for (std::size_t i = 0; i < offset; ++i) {
    if (text[i] != '\n') continue;
    ++line;
    start = i + 1;
  }
  return fmt::format("{}:{}:{}", path, line, offset - start + 1);
}

/// Offset of the last `"key"` of the outermost object of valid JSON; 0 if it has none.
std::size_t offset_of_key(std::string_view text, std::string_view key) {
  std::size_t found = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c != '"') continue;
    const std::size_t open = i;
    for (++i; text[i] != '"'; ++i)
      if (text[i] == '\\') ++i;
    if (depth != 1 || text.substr(open + 1, i - open - 1) != key) continue;
    const std::size_t next = text.find_first_not_of(" \t\r\n", i + 1);
    if (text[next] == ':') found = open;
  }
  return found;
}

/// What nlohmann says after "line N, column N: ", without what it read last (which may be long or
/// not text).
std::string parse_problem(std::string_view what) {
  const std::size_t column = what.find("column");
  const std::size_t colon = what.find(": ", column == std::string_view::npos ? 0 : column);
  std::string problem(colon == std::string_view::npos ? what : what.substr(colon + 2));
  const std::size_t last_read = problem.find("; last read:");
  if (last_read != std::string::npos) {
    const std::size_t rest = problem.rfind("; expected");
    const bool has_rest = rest != std::string::npos && rest > last_read;
    problem = problem.substr(0, last_read) + (has_rest ? problem.substr(rest) : "");
  }
  return problem;
}

// --- the file ---

/// A config.json whose values are asked for by key. The first error sticks: later answers are
/// arbitrary but valid, and error() tells.
class ConfigFile {
 public:
  static Result<ConfigFile> read(const std::string& path) {
    Result<std::string> text = read_file(path, kLongestConfig);
    if (!text) return tl::unexpected(text.error());
    ConfigFile file;
    file.path_ = path;
    file.text_ = std::move(*text);
    try {
      file.json_ = Json::parse(file.text_);
    } catch (const Json::parse_error& error) {
      const std::size_t offset = error.byte > 0 ? error.byte - 1 : 0;
      return fail_at(place_of(path, file.text_, offset),
                     "not valid JSON: {}; expected a Hugging Face config.json",
                     parse_problem(error.what()));
    } catch (const Json::exception& error) {  // numbers beyond double
      return fail_at(path + ":1:1", "not valid JSON: {}; expected a Hugging Face config.json",
                     parse_problem(error.what()));
    }
    if (!file.json_.is_object())
      return fail_at(path + ":1:1",
                     "this is a JSON {}, expected the object of a Hugging Face "
                     "config.json",
                     file.json_.type_name());
    return file;
  }

  const std::optional<Error>& error() const { return error_; }

  /// An error at the key, or at the file's start if the file has no such key.
  void complain(std::string_view key, std::string message) {
    if (error_) return;
    const std::size_t offset = offset_of_key(text_, key);
    error_ = Error{place_of(path_, text_, offset), std::move(message), Fault::input};
  }

  bool has(std::string_view key) const {
    const auto found = json_.find(key);
    return found != json_.end() && !found->is_null();
  }

  bool has_null(std::string_view key) const {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_null();
  }

  /// An integer of 1 … most under the first of `keys` that the file has; `fallback` (or an error)
  /// if it has none.
  std::int64_t size(std::span<const std::string_view> keys, std::int64_t most,
                    std::optional<std::int64_t> fallback) {
    for (const std::string_view key : keys)
      if (has(key)) return size_at(key, most);
    if (!fallback)
      complain(keys.front(),
               fmt::format("'{}' is missing, expected an integer of 1 to {}", keys.front(), most));
    return fallback.value_or(1);
  }

  bool flag(std::string_view key, bool fallback) {
    if (!has(key)) return fallback;
    const Json& value = *json_.find(key);
    if (value.is_boolean()) return value.get<bool>();
    complain(key, fmt::format("'{}' is {}, expected true or false", key, shown(value)));
    return fallback;
  }

  /// A rate in [0, 1).
  double rate(std::string_view key, double fallback) {
    if (!has(key)) return fallback;
    const Json& value = *json_.find(key);
    if (value.is_number() && value.get<double>() >= 0 && value.get<double>() < 1)
      return value.get<double>();
    complain(key, fmt::format("'{}' is {}, expected a rate from 0 to below 1", key, shown(value)));
    return fallback;
  }

  std::string text(std::string_view key, std::string_view fallback) {
    if (!has(key)) return std::string(fallback);
    const Json& value = *json_.find(key);
    if (value.is_string()) return value.get<std::string>();
    complain(key, fmt::format("'{}' is {}, expected a string", key, shown(value)));
    return std::string(fallback);
  }

  /// The first of a list of strings; nothing if the file has no such key.
  std::optional<std::string> first_text(std::string_view key) {
    if (!has(key)) return std::nullopt;
    const Json& value = *json_.find(key);
    if (value.is_array() && !value.empty() && value.front().is_string())
      return value.front().get<std::string>();
    complain(key, fmt::format("'{}' is {}, expected a list with the name of a model class", key,
                              shown(value)));
    return std::nullopt;
  }

  /// A value for a message: as JSON, cut to a readable length.
  static std::string shown(const Json& value) {
    constexpr std::size_t kLongest = 40;
    if (value.is_array()) return "a list";
    if (value.is_object()) return "an object";
    std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > kLongest) text = text.substr(0, kLongest) + "…";
    return text;
  }

 private:
  std::int64_t size_at(std::string_view key, std::int64_t most) {
    const Json& value = *json_.find(key);
    // Unsigned first: what exceeds int64 must not wrap to a small or negative number.
    const bool fits = value.is_number_unsigned()
                          ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                          : value.is_number_integer();
    if (fits && value.get<std::int64_t>() >= 1) return value.get<std::int64_t>();
    complain(key,
             fmt::format("'{}' is {}, expected an integer of 1 to {}", key, shown(value), most));
    return 1;
  }

  std::string path_;
  std::string text_;
  Json json_;
  std::optional<Error> error_;
};

// --- families ---

struct Architecture {
  std::string_view name;
  std::string_view model_type;
};

constexpr std::array kArchitectures = {
    Architecture{"LlamaForCausalLM", "llama"}, Architecture{"MistralForCausalLM", "mistral"},
    Architecture{"Qwen2ForCausalLM", "qwen2"}, Architecture{"Qwen3ForCausalLM", "qwen3"},
    Architecture{"GPT2LMHeadModel", "gpt2"},
};

void complain_unknown(ConfigFile& file, std::string_view key, std::string_view word,
                      std::string_view Architecture::*column) {
  std::vector<std::string_view> known;
  std::string list;
  for (const Architecture& architecture : kArchitectures) {
    known.push_back(architecture.*column);
    list += (list.empty() ? "" : ", ") + std::string(architecture.*column);
  }
  file.complain(key,
                fmt::format("unknown {} {}{}; expected one of {}",
                            key == "architectures" ? "architecture" : "model_type",
                            ConfigFile::shown(std::string(word)), did_you_mean(word, known), list));
}

/// The model_type that the file stands for; the architecture decides where both are given.
std::string read_model_type(ConfigFile& file) {
  const std::optional<std::string> name = file.first_text("architectures");
  const std::string type = file.text("model_type", "");
  if (file.error()) return {};
  if (!name && type.empty()) {
    file.complain("architectures",
                  "neither 'architectures' nor 'model_type' is given, expected for example "
                  "\"architectures\": [\"LlamaForCausalLM\"]");
    return {};
  }
  for (const Architecture& known : kArchitectures) {
    if (name ? known.name != *name : known.model_type != type) continue;
    if (!type.empty() && type != known.model_type)
      file.complain("model_type",
                    fmt::format("'model_type' is {} but the architecture is {}, "
                                "expected \"{}\"",
                                ConfigFile::shown(type), known.name, known.model_type));
    return std::string(known.model_type);
  }
  if (name)
    complain_unknown(file, "architectures", *name, &Architecture::name);
  else
    complain_unknown(file, "model_type", type, &Architecture::model_type);
  return {};
}

/// The defaults of transformers/models/*/configuration_*.py for what a file may leave out.
struct LlamaDefaults {
  std::optional<std::int64_t> kv_heads;  ///< absent: as many as heads
  std::optional<std::int64_t> head_dim;  ///< absent: hidden / heads
  std::int64_t max_positions = 2048;
};

LlamaDefaults llama_defaults(std::string_view model_type) {
  if (model_type == "mistral") return {8, {}, 4096 * 32};
  if (model_type == "qwen2") return {32, {}, 32768};
  if (model_type == "qwen3") return {32, 128, 32768};
  return {};
}

void read_llama(ConfigFile& file, ModelConfig& c) {
  using Keys = std::array<std::string_view, 1>;
  const LlamaDefaults defaults = llama_defaults(c.model_type);
  c.family = ModelConfig::Family::llama;
  c.hidden = file.size(Keys{"hidden_size"}, kLargestSize, {});
  c.layers = file.size(Keys{"num_hidden_layers"}, kMostLayers, {});
  c.heads = file.size(Keys{"num_attention_heads"}, kLargestSize, {});
  const bool as_heads = file.has_null("num_key_value_heads") || !defaults.kv_heads;
  c.kv_heads =
      file.size(Keys{"num_key_value_heads"}, kLargestSize, as_heads ? c.heads : *defaults.kv_heads);
  if (!file.has("head_dim") && !defaults.head_dim && c.hidden % c.heads != 0)
    file.complain("num_attention_heads",
                  fmt::format("'num_attention_heads' = {} does not divide 'hidden_size' = {}, "
                              "expected a divisor or a 'head_dim'",
                              c.heads, c.hidden));
  c.head_dim = file.size(Keys{"head_dim"}, kLargestSize,
                         std::max<std::int64_t>(defaults.head_dim.value_or(c.hidden / c.heads), 1));
  c.intermediate = file.size(Keys{"intermediate_size"}, kLargestSize, {});
  c.vocab = file.size(Keys{"vocab_size"}, kLargestSize, {});
  c.max_positions =
      file.size(Keys{"max_position_embeddings"}, kLargestSize, defaults.max_positions);
  c.tied_embeddings = file.flag("tie_word_embeddings", false);
  const bool attention_bias =
      (c.model_type == "llama" || c.model_type == "qwen3") && file.flag("attention_bias", false);
  c.qkv_bias = attention_bias || c.model_type == "qwen2";
  c.output_bias = attention_bias;
  c.mlp_bias = c.model_type == "llama" && file.flag("mlp_bias", false);
  c.qk_norm = c.model_type == "qwen3";
  c.attention_dropout = file.rate("attention_dropout", 0);
  const std::string activation = file.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish")
    file.complain("hidden_act", fmt::format("'hidden_act' is {}, expected \"silu\"",
                                            ConfigFile::shown(activation)));
  if (c.heads % c.kv_heads != 0)
    file.complain(
        file.has("num_key_value_heads") ? "num_key_value_heads" : "num_attention_heads",
        fmt::format("'num_key_value_heads' = {} does not divide 'num_attention_heads' = {}, "
                    "expected a divisor",
                    c.kv_heads, c.heads));
  if (c.head_dim % 2 != 0)
    file.complain(
        file.has("head_dim") ? "head_dim" : "num_attention_heads",
        fmt::format("the head dimension is {}, expected an even one: the rotary embedding "
                    "turns pairs",
                    c.head_dim));
}

void read_gpt2(ConfigFile& file, ModelConfig& c) {
  using Keys = std::array<std::string_view, 2>;  // GPT2Config.attribute_map
  c.family = ModelConfig::Family::gpt2;
  c.hidden = file.size(Keys{"n_embd", "hidden_size"}, kLargestSize, {});
  c.layers = file.size(Keys{"n_layer", "num_hidden_layers"}, kMostLayers, {});
  c.heads = file.size(Keys{"n_head", "num_attention_heads"}, kLargestSize, {});
  c.kv_heads = c.heads;
  c.vocab = file.size(std::array<std::string_view, 1>{"vocab_size"}, kLargestSize, {});
  c.max_positions = file.size(Keys{"n_positions", "max_position_embeddings"}, kLargestSize, 1024);
  c.intermediate =
      file.size(std::array<std::string_view, 1>{"n_inner"}, 4 * kLargestSize, 4 * c.hidden);
  if (c.hidden % c.heads != 0)
    file.complain(file.has("n_head") ? "n_head" : "num_attention_heads",
                  fmt::format("'n_head' = {} does not divide 'n_embd' = {}, expected a divisor",
                              c.heads, c.hidden));
  c.head_dim = std::max<std::int64_t>(c.hidden / c.heads, 1);
  c.tied_embeddings = file.flag("tie_word_embeddings", true);
  c.qkv_bias = c.output_bias = c.mlp_bias = true;
  c.attention_dropout = file.rate("attn_pdrop", 0.1);
  c.residual_dropout = file.rate("resid_pdrop", 0.1);
  c.embedding_dropout = file.rate("embd_pdrop", 0.1);
  const std::string activation = file.text("activation_function", "gelu_new");
  c.fused_gelu = activation == "gelu" || activation == "gelu_pytorch_tanh";
  if (!c.fused_gelu && activation != "gelu_new")
    file.complain("activation_function",
                  fmt::format("'activation_function' is {}, expected \"gelu_new\", \"gelu\" or "
                              "\"gelu_pytorch_tanh\"",
                              ConfigFile::shown(activation)));
}

/// In floating point: the exact count may not fit in 64 bits.
double rough_parameters(const ModelConfig& c) {
  const double hidden = static_cast<double>(c.hidden);
  const double heads = static_cast<double>(2 * (c.heads + c.kv_heads));
  const double block = hidden * heads * static_cast<double>(c.head_dim) +
                       3 * hidden * static_cast<double>(c.intermediate);
  return block * static_cast<double>(c.layers) +
         hidden * static_cast<double>(2 * c.vocab + c.max_positions);
}

}  // namespace

Result<ModelConfig> read_model_config(const std::string& path) {
  Result<ConfigFile> file = ConfigFile::read(path);
  if (!file) return tl::unexpected(file.error());
  ModelConfig config;
  config.model_type = read_model_type(*file);
  if (file->error()) return tl::unexpected(*file->error());
  if (config.model_type == "gpt2")
    read_gpt2(*file, config);
  else
    read_llama(*file, config);
  if (!file->error() && rough_parameters(config) > static_cast<double>(kMostParameters))
    file->complain(config.model_type == "gpt2" ? "n_embd" : "hidden_size",
                   fmt::format("these sizes make a model of more than {} parameters, expected "
                               "smaller ones",
                               kMostParameters));
  if (file->error()) return tl::unexpected(*file->error());
  return config;
}

}  // namespace foregather::plan
