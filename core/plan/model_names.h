// What transformers calls the modules of each family.
#pragma once

#include <string_view>

#include "core/plan/model.h"

namespace foregather::plan {

/// Paths within the model (root, blocks, final_norm, head), within the root (embedding, …) or
/// within a block. Weights are PATH.weight, biases PATH.bias.
struct ModelNames {
  std::string_view root = "model";
  std::string_view blocks = "layers";  ///< within the root
  std::string_view embedding = "embed_tokens";
  std::string_view positions = "embed_positions";
  std::string_view attention = "self_attn";  ///< scope of the attention's ops
  std::string_view mlp = "mlp";              ///< scope of the mlp's ops
  std::string_view query = "self_attn.q_proj";
  std::string_view key = "self_attn.k_proj";
  std::string_view value = "self_attn.v_proj";
  std::string_view fused = "self_attn.qkv_proj";
  std::string_view out = "self_attn.o_proj";
  std::string_view query_norm = "self_attn.q_norm";
  std::string_view key_norm = "self_attn.k_norm";
  std::string_view gate = "mlp.gate_proj";
  std::string_view gate_up = "mlp.gate_up_proj";
  std::string_view up = "mlp.up_proj";
  std::string_view down = "mlp.down_proj";
  std::string_view first_norm = "input_layernorm";
  std::string_view second_norm = "post_attention_layernorm";
  std::string_view after_attention = "post_attention_layernorm";  ///< of sandwich norms
  std::string_view before_mlp = "pre_feedforward_layernorm";
  std::string_view after_mlp = "post_feedforward_layernorm";
  std::string_view router = "mlp.gate";
  std::string_view experts = "mlp.experts";
  std::string_view shared_expert = "mlp.shared_experts";
  std::string_view final_norm = "norm";  ///< within the root
  std::string_view head = "lm_head";
  bool norms_first = false;  ///< registered before attention and mlp
};

/// GPT-OSS's parameter of the attention beside its linears, one value a head.
inline constexpr std::string_view kSinks = "self_attn.sinks";

/// BLOOM's norm of the embedding, within the root.
inline constexpr std::string_view kEmbeddingNorm = "word_embeddings_layernorm";

/// Source: transformers/models/*/modeling_*.py.
const ModelNames& names_of(ModelConfig::Family family);

}  // namespace foregather::plan
