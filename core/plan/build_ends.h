// The two ends of a language model: token embedding and loss.
#pragma once

#include "core/plan/build_layers.h"

namespace foregather::plan {

/// weight[ids]: saves the ids. The backward is aten::embedding_dense_backward on CUDA: a gradient
/// of the whole table, zeroed, then summed into; for more than 3,072 ids the rows are sorted first
/// (aten/src/ATen/native/cuda/Embedding.cu, EmbeddingBackwardKernel.cu).
ValueIndex embedding(TapeBuilder& tape, ValueIndex ids, const std::string& weight,
                     std::int64_t width, const std::string& name);

/// The cos and sin tables [S, head_dim] (or torchtitan's complex one) that every block reads.
std::vector<ValueIndex> rotary_tables(TapeBuilder& tape, const LayerContext& context);

/// Hugging Face's ForCausalLMLoss over logits of `vocab` columns: logits in fp32, labels shifted by
/// padding, cross_entropy; the value is the fp32 loss.
ValueIndex causal_lm_loss(TapeBuilder& tape, const LayerContext& context, ValueIndex logits);

}  // namespace foregather::plan
