#include "core/plan/model_details.h"

#include <algorithm>

#include "core/plan/model_detail_parts.h"
#include "core/plan/model_families.h"

namespace foregather::plan {

namespace {

using Norm = ModelConfig::Norm;
using Mlp = ModelConfig::Mlp;
using Positions = ModelConfig::Positions;
using Residual = ModelConfig::Residual;
using Head = ModelConfig::Head;

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

// Gemma2Config has caps unless they are null, Gemma3TextConfig none unless they are given.
void read_gemma(const ConfigFile& file, std::string_view architecture, ModelConfig& c) {
  read_attention_bias(file, architecture, c);
  const auto caps = [&](std::string_view key) {
    const double usual = c.model_type == "gemma2" && !file.has_null(key) ? 1 : 0;
    return file.number(key, 0, 1e9, usual) > 0;
  };
  c.capped_scores = caps("attn_logit_softcapping");
  c.capped_logits = caps("final_logit_softcapping");
}

void read_llama(const ConfigFile& file, std::string_view architecture, ModelConfig& c) {
  read_attention_bias(file, architecture, c);
  c.mlp_bias = file.flag("mlp_bias", false);
  // Not a key of Hugging Face: LitGPT's and Megatron's Llama have one product for all three.
  c.fused_qkv = file.flag("fused_qkv", false);
}

void read_ministral(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  if (file.has("layer_types")) layer_types(file, c);
}

void read_ministral3(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  if (file.has_null("head_dim")) c.head_dim = c.hidden / c.heads;
}

void read_seed_oss(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  c.qkv_bias = file.flag("attention_bias", true);
  c.output_bias = file.flag("attention_out_bias", false);
  if (file.has_null("head_dim")) c.head_dim = c.hidden / c.heads;
  c.mlp_bias = file.flag("mlp_bias", false);
}

void read_granite(const ConfigFile& file, std::string_view architecture, ModelConfig& c) {
  read_attention_bias(file, architecture, c);
  c.mlp_bias = file.flag("mlp_bias", false);
  read_multipliers(file);
}

void read_smollm3(const ConfigFile& file, std::string_view architecture, ModelConfig& c) {
  read_attention_bias(file, architecture, c);
  c.mlp_bias = file.flag("mlp_bias", false);
  read_unrotated(file, c);
}

void read_glm(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  c.qkv_bias = file.flag("attention_bias", true);
  read_rotary_part(file, "partial_rotary_factor", 0.5, c);
}

void read_cohere(const ConfigFile& file, std::string_view architecture, ModelConfig& c) {
  read_attention_bias(file, architecture, c);
  c.qk_norm = c.norm_per_head = file.flag("use_qk_norm", false);
  file.number("logit_scale", 0, 1e9, 1);
}

namespace {

// By layer_types, or every Nth.
std::vector<std::int64_t> layers_without_window(const ConfigFile& file, const ModelConfig& c) {
  constexpr std::int64_t kUsual = 4;
  const std::int64_t pattern = window_pattern(file, kUsual);
  if (!file.has("layer_types")) return every(pattern, c.layers);
  const std::vector<std::string> types = layer_types(file, c);
  const auto count = static_cast<std::int64_t>(types.size());
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = 0; layer < std::min(count, c.layers); ++layer)
    if (types[static_cast<std::size_t>(layer)] == "full_attention") layers.push_back(layer);
  return layers;
}

}  // namespace

// Cohere2Config: layers that see all tokens have no positions.
void read_cohere2(const ConfigFile& file, std::string_view architecture, ModelConfig& c) {
  read_attention_bias(file, architecture, c);
  file.number("logit_scale", 0, 1e9, 1);
  c.unrotated = layers_without_window(file, c);
}

// Exaone4Attention: the same, if other layers have a window.
void read_exaone4(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  const std::vector<std::int64_t> layers = layers_without_window(file, c);
  if (!file.has_null("sliding_window")) c.unrotated = layers;
}

void read_ernie4_5(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  if (file.has_null("head_dim")) c.head_dim = c.hidden / c.heads;
  c.qkv_bias = c.output_bias = c.mlp_bias = file.flag("use_bias", false);
}

void read_arcee(const ConfigFile& file, std::string_view architecture, ModelConfig& c) {
  read_attention_bias(file, architecture, c);
  c.mlp_bias = file.flag("mlp_bias", false);
}

void read_nemotron(const ConfigFile& file, std::string_view architecture, ModelConfig& c) {
  read_arcee(file, architecture, c);
  read_rotary_part(file, "partial_rotary_factor", 0.5, c);
}

void read_starcoder2(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  c.qkv_bias = c.output_bias = c.mlp_bias = file.flag("use_bias", true);
}

void read_phi(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  c.qk_norm = file.flag("qk_layernorm", false);
  read_rotary_part(file, "partial_rotary_factor", 0.5, c);
}

void read_opt(const ConfigFile& file, std::string_view /*architecture*/, ModelConfig& c) {
  c.qkv_bias = c.output_bias = c.mlp_bias = file.flag("enable_bias", true);
  c.attention_dropout = file.rate("attention_dropout", 0);
  // OPTLearnedPositionalEmbedding: the first position is 2.
  c.position_rows = c.max_positions + 2;
  // OPT-350M alone has these.
  if (!file.flag("do_layer_norm_before", true))
    file.complain("do_layer_norm_before",
                  fmt::format("'{}' is false, expected true: norms behind are not simulated",
                              file.label("do_layer_norm_before")));
  if (file.size("word_embed_proj_dim", kLargestSize, c.hidden) != c.hidden)
    file.complain("word_embed_proj_dim",
                  fmt::format("'{}' is not the hidden size of {}, expected the same: embeddings "
                              "of another width are not simulated",
                              file.label("word_embed_proj_dim"), c.hidden));
  if (!file.flag("layer_norm_elementwise_affine", true))
    file.complain("layer_norm_elementwise_affine",
                  fmt::format("'{}' is false, expected true: norms without weights are not "
                              "simulated",
                              file.label("layer_norm_elementwise_affine")));
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
  // One key for all queries is what no fused kernel takes without enable_gqa (sdp_utils_cpp.h).
  c.has_sdpa = c.kv_heads > 1 || c.heads == 1;
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

void read_bloom(const ConfigFile& file, std::string_view /*architecture*/,
                ModelConfig& /*config*/) {
  for (const char* key : {"apply_residual_connection_post_layernorm", "slow_but_exact"})
    if (file.flag(key, false))
      file.complain(key, fmt::format("'{}' is true, expected false: it is not simulated", key));
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
