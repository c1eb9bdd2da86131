#include "core/plan/model_left_out.h"

#include <algorithm>

#include "core/plan/model_families.h"

namespace foregather::plan {
namespace {

struct LeftOut {
  std::string_view key;
  std::string_view what;
};

constexpr LeftOut kLeftOut[] = {
    {"quantization_config", "weights have the dtype of train.precision"},
    {"attn_logit_softcapping", "attention scores are not capped"},
    {"final_logit_softcapping", "logits are not capped"},
    {"num_nextn_predict_layers", "layers that predict further tokens are not simulated"},
    {"clip_qkv", "queries, keys and values are not clamped"},
    {"output_router_logits", "the loss that balances experts is not simulated"},
    {"router_jitter_noise", "tokens are not disturbed before they choose experts"},
};

struct Windowed {
  std::string_view model_type;
  std::int64_t usual;  ///< tokens, where the config says nothing; 0: none
  bool has_switch = false;
  bool in_all = false;  ///< whatever max_window_layers is
};

constexpr Windowed kWindowed[] = {
    {"mistral", 4096},
    {"mixtral", 0},
    {"phi3", 0},
    {"olmo3", 4096},
    {"cohere2", 4096},
    {"starcoder2", 0},
    {"smollm3", 0, true},
    {"gemma2", 4096},
    {"gemma3_text", 4096},
    {"qwen2", 4096, true},
    {"qwen3", 4096, true},
    {"qwen2_vl_text", 4096, true},
    {"qwen2_5_vl_text", 4096, true},
    {"qwen2_moe", 4096, true, true},
    {"qwen3_moe", 4096, true, true},
    {"gpt_oss", 128},
};

// Of Qwen's layers those from max_window_layers on (of its mixtures all, or every second one);
// layer_types goes over it.
bool has_windowed_layer(const ConfigFile& file, const Windowed& row, const ModelConfig& c) {
  if (file.has("layer_types"))
    return std::ranges::count(file.texts("layer_types"), "sliding_attention") > 0;
  constexpr std::int64_t kUsual = 28;
  return !row.has_switch || row.in_all ||
         file.size("max_window_layers", kLargestSize, kUsual, -1) < c.layers;
}

// Would PEFT adapt what is no linear?
bool adapts_experts(const Trainable& trainable) {
  constexpr std::string_view kTheirs[] = {"all-linear", "gate",    "router",    "gate_up_proj",
                                          "gate_proj",  "up_proj", "down_proj", "experts"};
  return trainable.kind == Trainable::Kind::lora &&
         std::ranges::any_of(trainable.targets, [&](const std::string& target) {
           const std::string_view last = std::string_view(target).substr(target.rfind('.') + 1);
           return std::ranges::find(kTheirs, last) != std::end(kTheirs);
         });
}

}  // namespace

void read_left_out(const ConfigFile& file, ModelConfig& c) {
  for (const LeftOut& row : kLeftOut) {
    if (!file.has(row.key)) continue;
    if (const std::string value = file.shown(row.key);
        value == "false" || value == "0" || value == "0.0")
      continue;
    c.left_out.push_back(fmt::format("{}: '{}' has no effect: {}", file.place(row.key),
                                     file.label(row.key), row.what));
  }
  for (const Windowed& row : kWindowed) {
    if (row.model_type != c.model_type || file.has_null("sliding_window")) continue;
    if (row.has_switch && !file.flag("use_sliding_window", false)) continue;
    if (!has_windowed_layer(file, row, c)) continue;
    c.window = file.size("sliding_window", kLargestSize, row.usual, 0);
  }
}

std::vector<std::string> model_warnings(const ModelConfig& config, const Train& train) {
  std::vector<std::string> warnings;
  for (const ModelConfig& tower : config.towers)
    for (std::string& warning : model_warnings(tower, train))
      warnings.push_back(std::move(warning));
  warnings.insert(warnings.end(), config.left_out.begin(), config.left_out.end());
  if (config.sinks && train.attention != Attention::eager)
    warnings.push_back(fmt::format(
        "{}'s attention has sinks, which transformers runs as eager attention unless it is given a "
        "FlashAttention that knows them: train.attention = \"flash\" is such a one, \"eager\" the "
        "other",
        config.model_type));
  if (config.experts.count > 0 && adapts_experts(train.trainable))
    warnings.push_back(
        "train.lora_targets: stacked experts and routers get no adapters, which PEFT gives them "
        "since transformers 5: the linears alone are adapted");
  // Eager attention computes all scores in any case.
  const bool is_sdpa = train.attention == Attention::sdpa || train.attention == Attention::cudnn;
  if (config.window > 0 && config.window < train.seq_len && train.attention == Attention::flash)
    warnings.push_back(fmt::format(
        "the sliding_window of {} is {} tokens, but attention is simulated over all {} of "
        "train.seq_len: it may be faster",
        config.model_type, config.window, train.seq_len));
  if (config.window > 0 && config.window <= train.seq_len && is_sdpa)
    warnings.push_back(fmt::format(
        "the sliding_window of {} is {} tokens of the {} of train.seq_len, for which transformers "
        "gives SDPA a mask: such layers are simulated without, as causal attention, but run slower "
        "and keep the mask and repeated keys and values; \"flash\" needs none",
        config.model_type, config.window, train.seq_len));
  return warnings;
}

}  // namespace foregather::plan
