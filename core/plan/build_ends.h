// What a model begins with: token embedding, positions, rotary tables, what the host sent.
#pragma once

#include "core/plan/build_layers.h"

namespace foregather::plan {

/// weight[ids]: saves the ids. The backward is aten::embedding_dense_backward on CUDA: a gradient
/// of the whole table, zeroed, then summed into; for more than 3,072 ids the rows are sorted first
/// (aten/src/ATen/native/cuda/Embedding.cu, EmbeddingBackwardKernel.cu).
ValueIndex embedding(TapeBuilder& tape, ValueIndex ids, const std::string& weight,
                     std::int64_t width, const std::string& name);

/// Token embeddings and rows for positions; the second is one row a position, so its gradient is
/// summed over the sequences.
ValueIndex add_positions(TapeBuilder& tape, ValueIndex tokens, ValueIndex positions);

/// Values of a head that the rotary embedding turns.
std::int64_t rotary_width(const ModelConfig& config);
/// Are the tables fp32 in any compute dtype?
bool has_wide_tables(const ModelConfig& config);
/// Of a row of a table.
std::int64_t table_width(const ModelConfig& config);

/// By complex products, which are written for whole heads alone (train.complex_rotary, and Llama
/// 4).
bool turns_complex(const LayerContext& context);
/// The cos and sin tables [S, table_width] (or torchtitan's complex one) that every block reads.
std::vector<ValueIndex> rotary_tables(TapeBuilder& tape, const LayerContext& context);

/// A value that the host sent, or that small kernels made, of which no parameter depends.
ValueIndex given(TapeBuilder& tape, const std::string& name, std::int64_t elements, DType dtype);

}  // namespace foregather::plan
