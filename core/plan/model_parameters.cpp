#include "core/plan/model_parameters.h"

#include "core/plan/model_names.h"

namespace foregather::plan {

namespace {

using Head = ModelConfig::Head;
using Mlp = ModelConfig::Mlp;
using Residual = ModelConfig::Residual;

/// A growing list for one model.
class Lister {
 public:
  explicit Lister(const ModelConfig& config) : c_(config), names_(names_of(config.family)) {}

  void plain(std::string_view name, std::vector<std::int64_t> shape, std::string tie = {}) {
    list_.push_back({std::string(name), std::move(shape), std::move(tie), unused_});
  }
  void linear(std::string_view path, std::int64_t out, std::int64_t in, bool biased) {
    plain(std::string(path) + ".weight", {out, in});
    if (biased) plain(std::string(path) + ".bias", {out});
  }
  void norm(std::string_view path, std::int64_t width) {
    using Norm = ModelConfig::Norm;
    if (c_.norm == Norm::layer_bare) return;
    plain(std::string(path) + ".weight", {width});
    if ((c_.norm == Norm::layer || c_.norm == Norm::layer_offset) && c_.norm_bias)
      plain(std::string(path) + ".bias", {width});
  }

  void attention();
  void latent_attention();
  void query_key_norms();
  void mlp(std::int64_t layer);
  void experts();
  void norms();
  void gpt2_block();
  void image_embedding();
  void attention_pool();

  /// What is listed next is read by no op.
  void unused(bool flag) { unused_ = flag; }

  const ModelNames& names() const { return names_; }
  ParameterShapes take() { return std::move(list_); }

 private:
  const ModelConfig& c_;
  const ModelNames& names_;
  bool unused_ = false;
  ParameterShapes list_;
};

void Lister::query_key_norms() {
  if (!c_.qk_norm) return;
  if (!c_.norm_per_head) {
    norm(names_.query_norm, c_.head_dim * (c_.norm_all_heads ? c_.heads : 1));
    norm(names_.key_norm, c_.head_dim * (c_.norm_all_heads ? c_.kv_heads : 1));
    return;
  }
  // StableLmLayerNormPerHead: one norm without bias for each head, here one parameter.
  plain(std::string(names_.query_norm) + ".weight", {c_.heads, c_.head_dim});
  plain(std::string(names_.key_norm) + ".weight", {c_.kv_heads, c_.head_dim});
}

void Lister::attention() {
  if (c_.latent.kv_rank > 0) return latent_attention();
  const std::int64_t queries = c_.heads * c_.head_dim;
  const std::int64_t keys = c_.kv_heads * c_.head_dim;
  if (c_.fused_qkv) {
    linear(names_.fused, queries + 2 * keys, c_.hidden, c_.qkv_bias);
  } else {
    linear(names_.query, queries, c_.hidden, c_.qkv_bias);
    linear(names_.key, keys, c_.hidden, c_.qkv_bias);
    linear(names_.value, keys, c_.hidden, c_.qkv_bias);
  }
  linear(names_.out, c_.hidden, queries, c_.output_bias);
  if (c_.sinks) plain(kSinks, {c_.heads});
  query_key_norms();
}

// DeepseekV3Attention.
void Lister::latent_attention() {
  const ModelConfig::Latent& l = c_.latent;
  const std::int64_t queries = c_.heads * c_.query_dim();
  if (l.query_rank > 0) {
    linear("self_attn.q_a_proj", l.query_rank, c_.hidden, c_.qkv_bias);
    norm("self_attn.q_a_layernorm", l.query_rank);
    linear("self_attn.q_b_proj", queries, l.query_rank, false);
  } else {
    linear(names_.query, queries, c_.hidden, false);
  }
  linear("self_attn.kv_a_proj_with_mqa", l.kv_rank + l.rotary_dim, c_.hidden, c_.qkv_bias);
  norm("self_attn.kv_a_layernorm", l.kv_rank);
  linear("self_attn.kv_b_proj", c_.heads * (l.plain_dim + l.value_dim), l.kv_rank, false);
  linear(names_.out, c_.hidden, c_.heads * l.value_dim, c_.output_bias);
}

void Lister::experts() {
  const ModelConfig::Experts& e = c_.experts;
  linear(names_.router, e.count, c_.hidden, e.biased_and_clamped);
  const std::string experts(names_.experts);
  if (e.take_all) {  // Llama4TextExperts
    plain(experts + ".gate_up_proj", {e.count, c_.hidden, 2 * e.intermediate});
    plain(experts + ".down_proj", {e.count, e.intermediate, c_.hidden});
  } else if (e.biased_and_clamped) {  // GptOssExperts
    plain(experts + ".gate_up_proj", {e.count, c_.hidden, 2 * e.intermediate});
    plain(experts + ".gate_up_proj_bias", {e.count, 2 * e.intermediate});
    plain(experts + ".down_proj", {e.count, e.intermediate, c_.hidden});
    plain(experts + ".down_proj_bias", {e.count, c_.hidden});
  } else {
    plain(experts + ".gate_up_proj", {e.count, 2 * e.intermediate, c_.hidden});
    plain(experts + ".down_proj", {e.count, c_.hidden, e.intermediate});
  }
  if (e.shared == 0) return;
  const std::string shared(names_.shared_expert);
  linear(shared + ".gate_proj", e.shared, c_.hidden, c_.mlp_bias);
  linear(shared + ".up_proj", e.shared, c_.hidden, c_.mlp_bias);
  linear(shared + ".down_proj", c_.hidden, e.shared, c_.mlp_bias);
  if (e.shared_gate) linear("mlp.shared_expert_gate", 1, c_.hidden, false);
}

void Lister::mlp(std::int64_t layer) {
  if (c_.has_experts(layer)) return experts();
  if (c_.mlp == Mlp::gated_fused) {
    linear(names_.gate_up, 2 * c_.intermediate, c_.hidden, c_.mlp_bias);
  } else {
    if (c_.mlp == Mlp::gated) linear(names_.gate, c_.intermediate, c_.hidden, c_.mlp_bias);
    linear(names_.up, c_.intermediate, c_.hidden, c_.mlp_bias);
  }
  linear(names_.down, c_.hidden, c_.intermediate, c_.mlp_bias);
}

void Lister::norms() {
  if (c_.residual == Residual::output_norm) {
    norm(names_.after_attention, c_.hidden);
    norm(names_.after_mlp, c_.hidden);
    return;
  }
  norm(names_.first_norm, c_.hidden);
  if (c_.sandwich_norms) {
    norm(names_.after_attention, c_.hidden);
    norm(names_.before_mlp, c_.hidden);
    norm(names_.after_mlp, c_.hidden);
    return;
  }
  if (c_.residual != Residual::parallel || c_.two_parallel_norms)
    norm(names_.second_norm, c_.hidden);
}

// GPT2Block; the weights are [in, out].
void Lister::gpt2_block() {
  const std::int64_t h = c_.hidden;
  const auto conv1d = [this](const char* path, std::int64_t in, std::int64_t out) {
    plain(std::string(path) + ".weight", {in, out});
    plain(std::string(path) + ".bias", {out});
  };
  const auto both = [this, h](const char* path) {
    plain(std::string(path) + ".weight", {h});
    plain(std::string(path) + ".bias", {h});
  };
  both("ln_1");
  conv1d("attn.c_attn", h, 3 * h);
  conv1d("attn.c_proj", h, h);
  both("ln_2");
  conv1d("mlp.c_fc", h, c_.intermediate);
  conv1d("mlp.c_proj", c_.intermediate, h);
}

void Lister::image_embedding() {
  const ModelConfig::Image& image = c_.image;
  const std::int64_t h = c_.hidden;
  using Shape = std::vector<std::int64_t>;
  const bool is_clip = c_.family == ModelConfig::Family::clip;
  const bool is_siglip = c_.family == ModelConfig::Family::siglip;
  if (!is_siglip) plain("embeddings.cls_token", is_clip ? Shape{h} : Shape{1, 1, h});
  unused_ = true;
  if (image.mask_token) plain("embeddings.mask_token", {1, h});
  unused_ = false;
  if (image.prefix > 1) plain("embeddings.register_tokens", {1, image.prefix - 1, h});
  plain("embeddings.patch_embeddings.weight", {h, image.channels, image.patch, image.patch});
  if (image.patch_bias) plain("embeddings.patch_embeddings.bias", {h});
  // Of CLIP and SigLIP an embedding, of the others a parameter.
  const std::int64_t rows = image.table_rows;
  plain(std::string(names_.positions) + ".weight",
        is_clip || is_siglip ? Shape{rows, h} : Shape{1, rows, h});
  if (image.pre_norm) norm("embeddings.pre_layernorm", h);
}

// SiglipMultiheadAttentionPoolingHead.
void Lister::attention_pool() {
  const std::int64_t h = c_.hidden;
  const std::string head = std::string(names_.root) + ".head";
  plain(head + ".probe", {1, 1, h});
  plain(head + ".attention.in_proj_weight", {3 * h, h});
  plain(head + ".attention.in_proj_bias", {3 * h});
  linear(head + ".attention.out_proj", h, h, true);
  norm(head + ".layernorm", h);
  linear(head + ".mlp.fc1", c_.intermediate, h, true);
  linear(head + ".mlp.fc2", h, c_.intermediate, true);
}

}  // namespace

ParameterShapes embedding_parameters(const ModelConfig& c) {
  Lister lister(c);
  const std::string tie = c.tied_embeddings ? kEmbeddingTie : "";
  if (c.family == ModelConfig::Family::gpt2) {
    lister.plain("wte.weight", {c.vocab, c.hidden}, tie);
    lister.plain("wpe.weight", {c.max_positions, c.hidden});
    return lister.take();
  }
  if (c.is_vision()) {
    lister.image_embedding();
    return lister.take();
  }
  lister.plain(std::string(lister.names().embedding) + ".weight", {c.vocab, c.hidden}, tie);
  if (c.normed_embeddings) lister.norm(kEmbeddingNorm, c.hidden);
  if (c.positions == ModelConfig::Positions::learned)
    lister.plain(std::string(lister.names().positions) + ".weight",
                 {c.position_rows > 0 ? c.position_rows : c.max_positions, c.hidden});
  if (c.token_types > 0) {
    lister.plain("embeddings.token_type_embeddings.weight", {c.token_types, c.hidden});
    lister.norm("embeddings.LayerNorm", c.hidden);
  }
  return lister.take();
}

ParameterShapes block_parameters(const ModelConfig& c, std::int64_t layer) {
  Lister lister(c);
  if (c.family == ModelConfig::Family::gpt2) {
    lister.gpt2_block();
    return lister.take();
  }
  if (c.residual == Residual::post_norm) {
    lister.attention();
    lister.norm(lister.names().first_norm, c.hidden);
    lister.mlp(layer);
    lister.norm(lister.names().second_norm, c.hidden);
    return lister.take();
  }
  if (lister.names().norms_first) lister.norms();
  lister.attention();
  lister.mlp(layer);
  if (!lister.names().norms_first) lister.norms();
  if (c.layer_scale) {
    lister.plain("layer_scale1.lambda1", {c.hidden});
    lister.plain("layer_scale2.lambda1", {c.hidden});
  }
  return lister.take();
}

ParameterShapes head_parameters(const ModelConfig& c) {
  Lister lister(c);
  const ModelNames& names = lister.names();
  const std::string tie = c.tied_embeddings ? kEmbeddingTie : "";
  const std::string root(names.root);
  if (c.family == ModelConfig::Family::gpt2) {
    lister.plain("transformer.ln_f.weight", {c.hidden});
    lister.plain("transformer.ln_f.bias", {c.hidden});
    lister.plain("lm_head.weight", {c.vocab, c.hidden}, tie);
    return lister.take();
  }
  if (c.residual != Residual::post_norm)
    lister.norm(root + "." + std::string(names.final_norm), c.hidden);
  lister.unused(c.has_pooler);
  if (c.has_pooler || c.head == Head::pooler)
    lister.linear(root + ".pooler.dense", c.hidden, c.hidden, true);
  if (c.has_pooler) lister.linear("cls.seq_relationship", 2, c.hidden, true);
  lister.unused(false);
  switch (c.head) {
    case Head::language_model:
      lister.plain(std::string(names.head) + ".weight", {c.vocab, c.hidden}, tie);
      if (c.head_bias) lister.plain(std::string(names.head) + ".bias", {c.vocab});
      break;
    case Head::masked_language_model:
      lister.linear("cls.predictions.transform.dense", c.hidden, c.hidden, true);
      lister.norm("cls.predictions.transform.LayerNorm", c.hidden);
      lister.plain("cls.predictions.decoder.weight", {c.vocab, c.hidden}, tie);
      lister.plain("cls.predictions.bias", {c.vocab});
      break;
    case Head::attention_pool: lister.attention_pool(); break;
    case Head::classifier:
      // DINOv2 classifies the class token and the mean of the patches.
      lister.linear("classifier", c.classes,
                    c.hidden * (c.family == ModelConfig::Family::dinov2 ? 2 : 1), true);
      break;
    case Head::pooler:
    case Head::features: break;
  }
  return lister.take();
}

ParameterShapes projector_parameters(const ModelConfig& c) {
  Lister lister(c);
  for (std::size_t i = 0; i + 1 < c.projector.size(); ++i)
    lister.linear("linear_" + std::to_string(i + 1), c.projector[i + 1], c.projector[i], true);
  return lister.take();
}

}  // namespace foregather::plan
