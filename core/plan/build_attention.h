// Attention: rotary embedding, then fused or eager attention.
#pragma once

#include <vector>

#include "core/plan/build_layers.h"

namespace foregather::plan {

/// Query, key and value heads, each [B, S, heads, head_dim] in memory, seen as [B, heads, S,
/// head_dim].
struct Heads {
  ValueIndex query = 0;
  ValueIndex key = 0;
  ValueIndex value = 0;
  std::vector<ValueIndex>
      locals;  ///< of the attention's frame, until the output projection has run
};

/// x turned by its positions (Hugging Face's apply_rotary_pos_emb on one tensor of any heads).
ValueIndex rotate(TapeBuilder& tape, const LayerContext& context, ValueIndex x,
                  const std::string& name, std::vector<ValueIndex> holds = {});

/// The rotary embedding of query and key, or of the first ModelConfig::rotary_dim values of each
/// head: then the rest is cut off before and joined again (GPT-NeoX, StableLM, Phi). The cos and
/// sin (or complex) tables are the embedding's.
void apply_rotary(TapeBuilder& tape, const LayerContext& context, Heads& heads);

/// How eager attention differs between the families.
struct EagerStyle {
  bool softmax_in_f32 = true;  ///< Llama: softmax(dtype=float32).to(dtype); GPT-2: as it comes
};

/// See HeldLocals.
struct AttentionLocals {
  std::vector<ValueIndex> in_attention;  ///< until the output projection has run
  std::vector<ValueIndex> in_block;      ///< until the block returns: eager attention's weights
  std::vector<ValueIndex> to_residual;
};

/// Does scaled_dot_product_attention get a mask in this layer, so that it is memory-efficient
/// attention that skips nothing? Where a window is no longer than the sequence, and in Falcon
/// without ALiBi always (transformers/masking_utils.py, _ignore_causal_mask_sdpa; FalconModel).
bool is_masked(const LayerContext& context);

/// Is ALiBi a tensor of [heads, S, S] that attention reads? Eager attention adds a row of each
/// head, but for Falcon's, whose tensor is one of all sequences (FalconModel).
bool reads_alibi(const LayerContext& context);
Bytes bytes_of_alibi(const LayerContext& context);

/// The attention of one block up to, not including, the output projection: [B, S, heads·head_dim].
///
/// Train::attention sdpa and flash are FlashAttention-2 (PyTorch's flash_attn/flash_api.cpp): saves
/// query, key, value, the output, the fp32 logsumexp [B, heads, S] and the random state. In fp32,
/// and on a GPU without FlashAttention, sdpa is memory-efficient attention, for which grouped keys
/// and values are copied out to all heads (it has no grouped heads: sdp_utils.cpp). FLOPs of causal
/// attention are half of the full square (2·B·heads·S²·(query_dim + value_dim) forward), and the
/// backward is 2.5 × the forward where both are alike.
///
/// A window of W under `flash`: S·W - W²/2 pairs of positions. Under `sdpa`, see is_masked(): what
/// is made of the mask is saved, and keys and values are copied out to all heads (use_gqa_in_sdpa).
///
/// ALiBi: `flash` adds the slopes inside its kernel (flash-attn 2.4); `sdpa` is memory-efficient
/// attention that reads a bias and skips nothing. DeepSeek's query and value
/// widths differ, which PyTorch's flash kernel does not take: memory-efficient attention.
///
/// Falcon of the new decoder architecture copies keys and values out to all heads first
/// (FalconAttention._split_heads).
ValueIndex attend(TapeBuilder& tape, const LayerContext& context, const Heads& heads,
                  const EagerStyle& style, AttentionLocals& locals);

}  // namespace foregather::plan
