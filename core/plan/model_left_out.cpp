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
    // Phi-3.5-MoE calls a tolerance so.
    if (!file.has(row.key) || (c.experts.router.mixer && row.key == "router_jitter_noise"))
      continue;
    if (const std::string value = file.shown(row.key);
        value == "false" || value == "0" || value == "0.0")
      continue;
    if (row.key.ends_with("softcapping") && c.family == ModelConfig::Family::gemma) continue;
    c.left_out.push_back(fmt::format("{}: '{}' has no effect: {}", file.place(row.key),
                                     file.label(row.key), row.what));
  }
}

std::vector<std::string> model_warnings(const ModelConfig& config, const Train& train) {
  std::vector<std::string> warnings;
  for (const ModelConfig& tower : config.towers)
    for (std::string& warning : model_warnings(tower, train))
      warnings.push_back(std::move(warning));
  warnings.insert(warnings.end(), config.left_out.begin(), config.left_out.end());
  if (config.capped_logits && train.loss_chunks > 1)
    warnings.push_back(fmt::format("train.loss_chunks: the parts of {}'s logits are not capped",
                                   config.model_type));
  if (config.sinks && train.attention != Attention::eager)
    warnings.push_back(fmt::format(
        "{}'s attention has sinks, which transformers runs as eager attention unless it is given a "
        "FlashAttention that knows them: train.attention = \"flash\" is such a one, \"eager\" the "
        "other",
        config.model_type));
  if (config.in_chunks && train.attention == Attention::flash)
    warnings.push_back(
        fmt::format("train.attention = \"flash\": transformers' {} has no FlashAttention; its "
                    "kernel is taken to "
                    "skip what lies outside a chunk, as torchtitan's FlexAttention does",
                    config.model_type));
  bool has_experts = false;
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    has_experts = has_experts || config.has_experts(layer);
  if (config.experts.take_all && has_experts)
    warnings.push_back(fmt::format(
        "each of {}'s {} experts computes all tokens, as in transformers: {:.3g} times the work of "
        "those that a token chooses, which alone count in MFU",
        config.model_type, config.experts.count,
        static_cast<double>(config.experts.count) / static_cast<double>(config.experts.active)));
  if (config.experts.count > 0 && adapts_experts(train.trainable))
    warnings.push_back(
        "train.lora_targets: stacked experts and routers get no adapters, which PEFT gives them "
        "since transformers 5: the linears alone are adapted");
  return warnings;
}

}  // namespace foregather::plan
