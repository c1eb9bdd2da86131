// What each family's config says beyond the common keys.
#pragma once

#include <string_view>

#include "core/plan/config_file.h"
#include "core/plan/model.h"

namespace foregather::plan {

/// The keys that the functions below read, separated by spaces.
inline constexpr std::string_view kDetailKeys =
    "tie_word_embeddings head_dim attention_bias mlp_bias rotary_pct partial_rotary_factor "
    "use_parallel_residual use_qkv_bias qk_layernorm bias multi_query parallel_attn alibi "
    "new_decoder_architecture num_kv_heads n_head_kv num_ln_in_parallel_attn no_bias "
    "learned_pos_emb expansion_ratio num_local_experts num_experts num_experts_per_tok "
    "moe_intermediate_size shared_expert_intermediate_size decoder_sparse_step mlp_only_layers "
    "n_routed_experts n_shared_experts first_k_dense_replace moe_layer_freq q_lora_rank "
    "kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim type_vocab_size image_size "
    "patch_size num_channels qkv_bias mlp_ratio use_swiglu_ffn num_register_tokens use_mask_token "
    "vision_use_head num_labels sliding_window use_sliding_window fused_qkv layer_types "
    "embedding_multiplier attention_multiplier residual_multiplier logits_scaling logit_scale "
    "no_rope_layers no_rope_layer_interval sliding_window_pattern use_qk_norm use_bias enable_bias "
    "norm_topk_prob rotary_dim attention_out_bias input_jitter_noise lm_head_bias "
    "intermediate_size_mlp moe_layers interleave_moe_layer_step attention_chunk_size "
    "attn_temperature_tuning";

using ReadDetails = void(const ConfigFile& file, std::string_view architecture,
                         ModelConfig& config);
ReadDetails read_attention_bias, read_gemma, read_llama, read_ministral, read_ministral3,
    read_granite, read_exaone4, read_ernie4_5, read_arcee, read_nemotron, read_granitemoe,
    read_phimoe, read_llama4, read_bloom, read_smollm3, read_glm, read_cohere, read_cohere2,
    read_starcoder2, read_phi, read_opt, read_gpt2, read_gpt_neox, read_falcon, read_mpt,
    read_stablelm, read_phi3, read_seed_oss, read_mixtral, read_minimax_m2, read_gpt_oss,
    read_olmoe, read_glm4_moe, read_qwen_moe, read_deepseek, read_bert, read_vit, read_dinov2,
    read_siglip, read_clip;

}  // namespace foregather::plan
