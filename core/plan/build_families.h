// The three tapes of a Llama-like model (Llama, Mistral, Qwen2, Qwen3) and of GPT-2.
#pragma once

#include "core/plan/build_layers.h"

namespace foregather::plan {

/// Tapes of the embedding, a block and the head.
struct FamilyTapes {
  Tape embedding, block, head;
};

FamilyTapes llama_tapes(const LayerContext& context);
FamilyTapes gpt2_tapes(const LayerContext& context);

/// 6 · parameters · tokens: forward and backward of matmuls over all weights of a module.
std::int64_t weight_flops(std::int64_t parameters, const LayerContext& context);
/// 12 · heads · head_dim · S · tokens: the attention of a block, without regard to the causal mask.
std::int64_t attention_flops(const LayerContext& context);

}  // namespace foregather::plan
