// What the configs of mixtures of experts say beyond the common keys.
#include <algorithm>

#include "core/plan/model_detail_parts.h"
#include "core/plan/model_details.h"
#include "core/plan/model_families.h"

namespace foregather::plan {

namespace {

constexpr std::int64_t kMostExperts = 65'536;

// The part of a head that rotates, as a size: of each head so many values.
void read_rotary_size(const ConfigFile& file, std::string_view key, ModelConfig& c) {
  c.rotary_dim = file.size(key, kLargestSize, c.head_dim);
  if (c.rotary_dim > c.head_dim || c.rotary_dim % 2 != 0)
    file.complain(key, fmt::format("'{}' is {} of a head dimension of {}, expected an even number "
                                   "of at most that: the rotary embedding turns pairs",
                                   file.label(key), c.rotary_dim, c.head_dim));
}

void read_active_experts(const ConfigFile& file, std::int64_t fallback, ModelConfig& c) {
  c.experts.active = file.size("num_experts_per_tok", kMostExperts, fallback);
  if (c.experts.active > c.experts.count)
    file.complain(
        "num_experts_per_tok",
        fmt::format("'{}' = {} of {} experts, expected at most as many as there are",
                    file.label("num_experts_per_tok"), c.experts.active, c.experts.count));
}

/// What configuration classes of DeepSeek's kin take for what a file leaves out.
struct RoutedDefaults {
  std::int64_t count, intermediate, shared, dense_layers, active;
};

// The experts of DeepSeek and of those that took them over.
void read_routed(const ConfigFile& file, const RoutedDefaults& usual, ModelConfig& c) {
  c.experts.count =
      file.size("n_routed_experts num_local_experts num_experts", kMostExperts, usual.count);
  c.experts.intermediate = file.size("moe_intermediate_size", kLargestSize, usual.intermediate);
  const std::int64_t shared = file.has_null("n_shared_experts")
                                  ? 0
                                  : file.size("n_shared_experts", kMostExperts, usual.shared, 0);
  c.experts.shared = shared * c.experts.intermediate;
  c.experts.first_layer = file.size("first_k_dense_replace", kMostLayers, usual.dense_layers, 0);
  c.experts.router = {.f32_product = true,
                      .sigmoid = true,
                      .sums_to_one = file.flag("norm_topk_prob", true),
                      .scaled = true};
  read_active_experts(file, usual.active, c);
}

}  // namespace

void read_mixtral(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  c.experts.count = file.size("num_local_experts num_experts", kMostExperts, 8);
  c.experts.intermediate = c.intermediate;
  read_active_experts(file, 2, c);
}

void read_granitemoe(const ConfigFile& file, std::string_view architecture, ModelConfig& c) {
  read_attention_bias(file, architecture, c);
  read_multipliers(file);
  read_mixtral(file, architecture, c);
}

void read_phimoe(const ConfigFile& file, std::string_view architecture, ModelConfig& c) {
  read_attention_bias(file, architecture, c);
  c.head_bias = file.flag("lm_head_bias", false);
  c.experts.count = file.size("num_local_experts num_experts", kMostExperts, 16);
  c.experts.intermediate = c.intermediate;
  c.experts.noise = file.number("input_jitter_noise", 0, 1, 0) > 0;
  read_active_experts(file, 2, c);
  if (c.experts.active != 2)
    file.complain("num_experts_per_tok",
                  fmt::format("'{}' is {}, expected 2, which the model draws whatever it says",
                              file.label("num_experts_per_tok"), c.experts.active));
}

void read_minimax_m2(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  c.experts.count = file.size("num_local_experts num_experts", kMostExperts, 256);
  c.experts.intermediate = c.intermediate;
  c.experts.router.sigmoid = true;
  read_active_experts(file, 8, c);
  if (file.has("rotary_dim") && !has_inner_part(file))
    read_rotary_size(file, "rotary_dim", c);
  else
    read_rotary_part(file, "partial_rotary_factor", 1, c);
}

namespace {

// Llama4TextConfig: those of a list, which may be empty, or every Nth.
void read_mixture_layers(const ConfigFile& file, ModelConfig& c) {
  if (!file.has("moe_layers")) {
    c.experts.every = file.size("interleave_moe_layer_step", kMostLayers, 1);
    return;
  }
  const std::vector<std::int64_t> with = file.sizes("moe_layers");
  for (std::int64_t layer = 0; layer < c.layers; ++layer)
    if (std::ranges::find(with, layer) == with.end()) c.experts.dense_layers.push_back(layer);
}

// A number in files of its first version.
bool tunes_temperature(const ConfigFile& file) {
  constexpr std::string_view kKey = "attn_temperature_tuning";
  const std::string value = file.shown(kKey);
  const bool is_number = !value.empty() && value.front() >= '0' && value.front() <= '9';
  return is_number ? file.number(kKey, 0, 1e9, 0) > 0 : file.flag(kKey, true);
}

}  // namespace

void read_llama4(const ConfigFile& file, std::string_view architecture, ModelConfig& c) {
  read_attention_bias(file, architecture, c);
  read_unrotated(file, c);
  read_mixture_layers(file, c);
  c.turned_qk_norm = file.flag("use_qk_norm", true);
  c.scaled_queries = tunes_temperature(file);
  c.experts.count = file.size("num_local_experts num_experts", kMostExperts, 16);
  c.experts.intermediate = file.size("intermediate_size", kLargestSize, 8192);
  c.experts.shared = c.experts.intermediate;
  if (file.has("layer_types")) layer_types(file, c);
  read_active_experts(file, 1, c);
}

void read_gpt_oss(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  c.qkv_bias = c.output_bias = file.flag("attention_bias", true);
  if (file.has("layer_types")) layer_types(file, c);
  c.experts.count = file.size("num_local_experts num_experts", kMostExperts, 128);
  c.experts.intermediate = c.intermediate;
  read_active_experts(file, 4, c);
}

void read_olmoe(const ConfigFile& file, std::string_view architecture, ModelConfig& c) {
  read_attention_bias(file, architecture, c);
  c.experts.count = file.size("num_experts num_local_experts", kMostExperts, 64);
  c.experts.intermediate = c.intermediate;
  c.experts.router = {.narrow = true, .sums_to_one = file.flag("norm_topk_prob", false)};
  read_active_experts(file, 8, c);
}

void read_glm4_moe(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  c.qkv_bias = file.flag("attention_bias", false);
  c.qk_norm = file.flag("use_qk_norm", false);
  read_rotary_part(file, "partial_rotary_factor", 0.5, c);
  read_routed(file,
              {.count = 128, .intermediate = 1408, .shared = 1, .dense_layers = 1, .active = 8}, c);
}

void read_qwen_moe(const ConfigFile& file, std::string_view architecture, ModelConfig& c) {
  const bool is_qwen2 = c.model_type == "qwen2_moe";
  if (is_qwen2) {
    c.qkv_bias = file.flag("qkv_bias", true);
    c.experts.shared = file.size("shared_expert_intermediate_size", kLargestSize, 5632);
    c.experts.shared_gate = true;
  } else {
    read_attention_bias(file, architecture, c);
  }
  c.experts.count = file.size("num_experts num_local_experts", kMostExperts, is_qwen2 ? 60 : 128);
  c.experts.intermediate = file.size("moe_intermediate_size", kLargestSize, is_qwen2 ? 1408 : 768);
  c.experts.every = file.size("decoder_sparse_step", kMostLayers, 1);
  c.experts.dense_layers = file.sizes("mlp_only_layers");
  c.experts.router = {.narrow = true, .sums_to_one = file.flag("norm_topk_prob", false)};
  read_active_experts(file, is_qwen2 ? 4 : 8, c);
}

void read_deepseek(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  const bool is_v3 = c.model_type != "deepseek_v2";
  c.output_bias = c.qkv_bias = file.flag("attention_bias", false);
  // Latent attention has keys for all heads: checked, not used.
  if (!file.has_null("num_key_value_heads"))
    file.size("num_key_value_heads", kLargestSize, c.heads);
  if (!file.has_null("q_lora_rank"))
    c.latent.query_rank = file.size("q_lora_rank", kLargestSize, 1536, 0);
  c.latent.kv_rank = file.size("kv_lora_rank", kLargestSize, 512);
  c.latent.plain_dim = file.size("qk_nope_head_dim", kLargestSize, 128);
  c.latent.rotary_dim = file.size("qk_rope_head_dim", kLargestSize, 64);
  c.latent.value_dim = file.size("v_head_dim", kLargestSize, 128);
  c.rotary_dim = c.latent.rotary_dim;
  if (c.rotary_dim % 2 != 0)
    file.complain("qk_rope_head_dim",
                  fmt::format("'{}' is {}, expected an even one: the rotary embedding turns pairs",
                              file.label("qk_rope_head_dim"), c.rotary_dim));
  if (file.has_null("n_routed_experts")) return;
  if (is_v3)
    read_routed(
        file, {.count = 256, .intermediate = 2048, .shared = 1, .dense_layers = 3, .active = 8}, c);
  else
    read_routed(
        file, {.count = 64, .intermediate = 1407, .shared = 2, .dense_layers = 0, .active = 6}, c);
  if (!is_v3) {
    c.experts.router.sigmoid = c.experts.router.sums_to_one = false;
    c.mlp_bias = file.flag("mlp_bias", false);
  }
  if (file.size("moe_layer_freq", kMostLayers, 1) != 1)
    file.complain("moe_layer_freq",
                  fmt::format("'{}' is {}, expected 1: other frequencies are not supported",
                              file.label("moe_layer_freq"), file.shown("moe_layer_freq")));
}

}  // namespace foregather::plan
