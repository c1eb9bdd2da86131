// The tapes of each kind of module.
#pragma once

#include "core/plan/build_layers.h"

namespace foregather::plan {

/// A decoder or encoder of any family but GPT-2 (build_gpt2.cpp). `has_experts`: of this block.
Tape embedding_tape(const LayerContext& context);
Tape block_tape(const LayerContext& context, bool has_experts);
Tape head_tape(const LayerContext& context);

Tape gpt2_embedding_tape(const LayerContext& context);
Tape gpt2_block_tape(const LayerContext& context);
Tape gpt2_head_tape(const LayerContext& context);

/// Pixels to patch embeddings; the convolution is a matmul, each token of the prefix and each
/// position a row that is added. `features_before` elements of another tower's features pass by:
/// they live until this module's backward (in PyTorch until they are concatenated).
Tape image_embedding_tape(const LayerContext& context, std::int64_t features_before);
/// What a vision tower ends in by itself.
Tape vision_head_tape(const LayerContext& context);
/// A block of a tower whose features come from before it: its forward runs.
Tape idle_block_tape(const LayerContext& context);
/// What it ends in before a projector: the patches of the hidden states. The final norm and
/// pooling are unused there.
Tape vision_features_tape(const LayerContext& context);
/// Features of all towers to the language model's width: linears with GELU between. The features of
/// the towers but the last (`features_before` elements) come from before.
Tape projector_tape(const LayerContext& context, std::int64_t patches,
                    std::int64_t features_before);
/// Projected patches before the text's embeddings: seq_len counts both.
Tape joined_embedding_tape(const LayerContext& context, std::int64_t patches);

/// A mixture of experts over x: router, permutation, grouped matmuls, weighted sum, shared expert.
/// Routing is taken as balanced: each expert gets tokens · active / count rows. Follows
/// transformers 5 (models/*/modeling_*.py; integrations/moe.py, grouped_mm_experts_forward), where
/// the experts' weights are stacked.
ValueIndex mixture_of_experts(TapeBuilder& tape, const LayerContext& context, ValueIndex x);
/// The mlp of the model's kind, with weights of the names in ModelNames; x stays alive until it
/// ends.
ValueIndex dense_mlp(TapeBuilder& tape, const LayerContext& context, ValueIndex x);
/// down(act(gate(x)) · up(x)) with weights PATH.gate_proj and so on.
ValueIndex gated_mlp(TapeBuilder& tape, const LayerContext& context, ValueIndex x,
                     const std::string& gate, const std::string& up, const std::string& down,
                     std::int64_t intermediate);
/// The activation function of the model, of one tensor.
ValueIndex activated(TapeBuilder& tape, const LayerContext& context, ValueIndex x,
                     const std::string& name);

/// GPT-OSS's gate (modeling_gpt_oss.py, _apply_gate) of gate and up side by side, each of so many
/// values: both clamped, then (up + 1) · gate · sigmoid(1.702 · gate).
ValueIndex clamped_gate(TapeBuilder& tape, ValueIndex both, std::int64_t each);

/// Rotary tables, attention masks and biases that all blocks read; they live until the backward
/// ends where blocks keep them.
void add_tables(TapeBuilder& tape, const LayerContext& context);

/// Python variables that keep values alive beyond their last use.
struct HeldLocals {
  std::vector<ValueIndex> to_end;       ///< until the block returns
  std::vector<ValueIndex> to_residual;  ///< BLOOM adds the residual in its attention
};
/// The attention of a block up to its output projection's result.
ValueIndex attention_of_block(TapeBuilder& tape, const LayerContext& context, ValueIndex x,
                              HeldLocals& held);

/// A linear of a module: its bias is used if the tape has one.
LinearSpec linear_of(const TapeBuilder& tape, const std::string& name, const std::string& module,
                     std::int64_t in, std::int64_t out, std::vector<ValueIndex> holds = {});

/// Elements of weights that a token does not use.
struct IdleWeights {
  std::int64_t trained = 0;
  std::int64_t frozen = 0;
};

/// Forward and backward of matmuls over all weights of a module but the idle ones:
/// 6 · parameters · tokens, of frozen ones 4, or 2 where no backward passes them; 2 less where what
/// they multiply has no gradient.
std::int64_t weight_flops(const TapeBuilder& tape, const LayerContext& context,
                          const IdleWeights& idle = {});
/// 6 · heads · (query_dim + value_dim) · S · tokens: the attention of a block, without regard to
/// the causal mask; a third of that where it has no backward.
std::int64_t attention_flops(const TapeBuilder& tape, const LayerContext& context);

}  // namespace foregather::plan
