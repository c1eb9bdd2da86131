#include "core/plan/model_details.h"

#include "core/plan/model_families.h"

namespace foregather::plan {

namespace {

using Norm = ModelConfig::Norm;
using Mlp = ModelConfig::Mlp;
using Positions = ModelConfig::Positions;
using Residual = ModelConfig::Residual;
using Head = ModelConfig::Head;

constexpr std::int64_t kMostExperts = 65'536;

// The part of a head that rotates: int(head_dim · factor).
void read_rotary_part(const ConfigFile& file, std::string_view key, double fallback,
                      ModelConfig& c) {
  const double factor = file.number(key, 0.01, 1, fallback);
  c.rotary_dim = static_cast<std::int64_t>(static_cast<double>(c.head_dim) * factor);
  if (c.rotary_dim < 1 || c.rotary_dim % 2 != 0)
    file.complain(key, fmt::format("'{}' = {} of a head dimension of {} rotates {} values, "
                                   "expected an even number: the rotary embedding turns pairs",
                                   file.label(key), factor, c.head_dim, c.rotary_dim));
}

void read_active_experts(const ConfigFile& file, std::int64_t fallback, ModelConfig& c) {
  c.experts.active = file.size("num_experts_per_tok", kMostExperts, fallback);
  if (c.experts.active > c.experts.count)
    file.complain(
        "num_experts_per_tok",
        fmt::format("'{}' = {} of {} experts, expected at most as many as there are",
                    file.label("num_experts_per_tok"), c.experts.active, c.experts.count));
}

void read_image(const ConfigFile& file, ModelConfig& c) {
  constexpr std::int64_t kMostPixels = 65'536;
  c.image.size = file.first_size("image_size", kMostPixels, c.image.size);
  c.image.patch = file.first_size("patch_size", kMostPixels, c.image.patch);
  c.image.channels = file.size("num_channels", kLargestSize, 3);
  if (c.image.patch > c.image.size)
    file.complain("patch_size",
                  fmt::format("'{}' = {} is larger than 'image_size' = {}, expected a smaller one",
                              file.label("patch_size"), c.image.patch, c.image.size));
}

}  // namespace

void read_attention_bias(const ConfigFile& file, std::string_view /*architecture*/,
                         ModelConfig& c) {
  const bool biased = file.flag("attention_bias", false);
  c.qkv_bias = c.qkv_bias || biased;
  c.output_bias = biased;
}

void read_llama(const ConfigFile& file, std::string_view architecture, ModelConfig& c) {
  read_attention_bias(file, architecture, c);
  c.mlp_bias = file.flag("mlp_bias", false);
  // Not a key of Hugging Face: LitGPT's and Megatron's Llama have one product for all three.
  c.fused_qkv = file.flag("fused_qkv", false);
}

void read_gpt2(const ConfigFile& /*file*/, std::string_view /*architecture*/, ModelConfig& c) {
  c.fused_gelu = c.activation == ModelConfig::Activation::gelu;
}

void read_gpt_neox(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  c.qkv_bias = c.output_bias = file.flag("attention_bias", true);
  c.two_parallel_norms = true;
  if (file.flag("use_parallel_residual", true)) c.residual = Residual::parallel;
  read_rotary_part(file, "rotary_pct partial_rotary_factor", 0.25, c);
}

void read_falcon(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  // "RefinedWeb" was the 40B model's type before transformers had it, "RefinedWebModel" the 7B's.
  const bool is_new = file.flag("new_decoder_architecture", c.model_type == "RefinedWeb");
  const bool multi_query = file.flag("multi_query", true);
  const bool parallel = file.flag("parallel_attn", true);
  if (is_new)
    c.kv_heads = file.size("num_kv_heads n_head_kv", kLargestSize, c.heads);
  else if (multi_query)
    c.kv_heads = 1;
  c.qkv_bias = c.output_bias = c.mlp_bias = file.flag("bias", false);
  if (is_new || parallel) c.residual = Residual::parallel;
  const std::int64_t norms = file.size("num_ln_in_parallel_attn", 2, is_new ? 2 : 1);
  c.two_parallel_norms = is_new && norms == 2;
  c.positions = file.flag("alibi", false) ? Positions::alibi : Positions::rotary;
}

// modeling_mpt.py of MosaicML: ALiBi switches learned positions off; no_bias holds for norms too.
void read_mpt(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  const ConfigFile attention = file.section("attn_config");
  const bool alibi = file.has("alibi") ? file.flag("alibi", true) : attention.flag("alibi", true);
  c.positions = alibi                                ? Positions::alibi
                : file.flag("learned_pos_emb", true) ? Positions::learned
                                                     : Positions::none;
  const bool biased = !file.flag("no_bias", true);
  c.norm_bias = c.qkv_bias = c.output_bias = c.mlp_bias = biased;
  if (!file.has("intermediate_size"))
    c.intermediate = c.hidden * file.size("expansion_ratio", 1024, 4);
  c.attention_dropout = attention.rate("attn_pdrop", c.attention_dropout);
  // llm-foundry's classes have more than transformers'.
  const std::string kind = attention.text("attn_type", "multihead_attention");
  if (kind == "multiquery_attention")
    c.kv_heads = 1;
  else if (kind == "grouped_query_attention")
    c.kv_heads = attention.size("kv_n_heads", kLargestSize, c.heads);
  else if (kind != "multihead_attention")
    attention.complain("attn_type",
                       fmt::format("'{}' = {} is not simulated, expected multihead_, "
                                   "grouped_query_ or multiquery_attention",
                                   attention.label("attn_type"), attention.shown("attn_type")));
  if (c.kv_heads > 0 && c.heads % c.kv_heads != 0)
    attention.complain("kv_n_heads",
                       fmt::format("'{}' = {} does not divide {} heads, expected a divisor",
                                   attention.label("kv_n_heads"), c.kv_heads, c.heads));
  for (const char* key : {"rope", "qk_ln", "qk_gn"})
    if (attention.flag(key, false))
      attention.complain(
          key, fmt::format("'{}' is not simulated, expected false", attention.label(key)));
  const ConfigFile ffn = file.section("ffn_config");
  const std::string layer = ffn.text("ffn_type", "mptmlp");
  if (layer != "mptmlp" && layer != "te_ln_mlp")
    ffn.complain("ffn_type", fmt::format("'{}' = {} is not simulated, expected mptmlp",
                                         ffn.label("ffn_type"), ffn.shown("ffn_type")));
  if (ffn.has("ffn_hidden_size")) c.intermediate = ffn.size("ffn_hidden_size", kLargestSize, {});
}

void read_stablelm(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  c.qkv_bias = file.flag("use_qkv_bias", false);
  c.qk_norm = c.norm_per_head = file.flag("qk_layernorm", false);
  if (file.flag("use_parallel_residual", false)) c.residual = Residual::parallel;
  read_rotary_part(file, "partial_rotary_factor rope_pct", 0.25, c);
}

void read_phi3(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  read_rotary_part(file, "partial_rotary_factor", 1.0, c);
}

void read_mixtral(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  c.experts.count = file.size("num_local_experts num_experts", kMostExperts, 8);
  c.experts.intermediate = c.intermediate;
  read_active_experts(file, 2, c);
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
  read_active_experts(file, is_qwen2 ? 4 : 8, c);
}

void read_deepseek(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  const bool is_v3 = c.model_type == "deepseek_v3";
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
  c.experts.count = file.size("n_routed_experts", kMostExperts, is_v3 ? 256 : 64);
  c.experts.intermediate = file.size("moe_intermediate_size", kLargestSize, is_v3 ? 2048 : 1407);
  const std::int64_t shared = file.has_null("n_shared_experts")
                                  ? 0
                                  : file.size("n_shared_experts", kMostExperts, is_v3 ? 1 : 2, 0);
  c.experts.shared = shared * c.experts.intermediate;
  c.experts.first_layer = file.size("first_k_dense_replace", kMostLayers, is_v3 ? 3 : 0, 0);
  if (file.size("moe_layer_freq", kMostLayers, 1) != 1)
    file.complain("moe_layer_freq",
                  fmt::format("'{}' is {}, expected 1: other frequencies are not supported",
                              file.label("moe_layer_freq"), file.shown("moe_layer_freq")));
  read_active_experts(file, is_v3 ? 8 : 6, c);
}

void read_bert(const ConfigFile& file, std::string_view architecture, ModelConfig& c) {
  c.token_types = file.size("type_vocab_size", kLargestSize, 2);
  c.position_rows = c.max_positions;
  // RobertaEmbeddings: positions count from padding_idx + 1 = 2.
  constexpr std::int64_t kFirstPosition = 2;
  if (c.family == ModelConfig::Family::roberta) {
    c.max_positions -= kFirstPosition;
    if (c.max_positions < 1)
      file.complain("max_position_embeddings",
                    fmt::format("'{}' is {}, expected 3 or more: RoBERTa's first position is 2",
                                file.label("max_position_embeddings"), c.position_rows));
  }
  if (architecture == "BertForPreTraining") c.has_pooler = true;
  if (architecture.ends_with("Model")) {
    c.head = Head::pooler;
    c.head_bias = c.tied_embeddings = false;
  }
}

void read_vit(const ConfigFile& file, std::string_view architecture, ModelConfig& c) {
  read_image(file, c);
  c.qkv_bias = file.flag("qkv_bias", true);
  c.image.table_rows = c.image.tokens();
  if (architecture == "ViTForImageClassification") {
    c.head = Head::classifier;
    c.classes = file.size("num_labels", kLargestSize, file.members("id2label").value_or(2));
  }
}

void read_dinov2(const ConfigFile& file, std::string_view architecture, ModelConfig& c) {
  read_image(file, c);
  c.qkv_bias = file.flag("qkv_bias", true);
  if (!file.has("intermediate_size")) c.intermediate = c.hidden * file.size("mlp_ratio", 1024, 4);
  if (file.flag("use_swiglu_ffn", false)) {
    // Dinov2SwiGLUFFN: two thirds, rounded up to a multiple of 8.
    c.mlp = Mlp::gated_fused;
    c.activation = ModelConfig::Activation::silu;
    c.intermediate = (c.intermediate * 2 / 3 + 7) / 8 * 8;
  }
  c.image.mask_token = file.flag("use_mask_token", true);
  c.image.table_rows = c.image.tokens();
  const bool has_registers = c.model_type == "dinov2_with_registers";
  if (has_registers || file.has("num_register_tokens"))
    c.image.prefix += file.size("num_register_tokens", kLargestSize, has_registers ? 4 : 0, 0);
  if (architecture == "Dinov2ForImageClassification") {
    c.head = Head::classifier;
    c.classes = file.size("num_labels", kLargestSize, file.members("id2label").value_or(2));
  }
}

void read_siglip(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  read_image(file, c);
  c.image.table_rows = c.image.patches();
  if (!file.flag("vision_use_head", true)) c.head = Head::features;
}

void read_clip(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  read_image(file, c);
  c.image.table_rows = c.image.tokens();
}

}  // namespace foregather::plan
