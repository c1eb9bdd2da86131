// The tapes of a module tree.
#pragma once

#include "core/plan/build_layers.h"
#include "core/plan/module_tree.h"

namespace foregather::plan {

/// The chain of a tree's modules, then its loss, which is outside of all that is wrapped. What
/// works on a source and a target is one module with the transformer that joins them. `config` has
/// the tree and its plan for `train`.
Model build_tree_model(const ModelConfig& config, const TrainOfModules& train,
                       const Implementation& implementation);

/// torch.nn.TransformerEncoderLayer and torch.nn.Transformer as PyTorch 2.9+ makes them by
/// default: [positions, sequences, d_model], norms behind (norm_first=False), relu, dropout after
/// each part and inside attention. torch.nn.MultiheadAttention in training projects query, key and
/// value at once, copies them apart, and calls scaled_dot_product_attention (the caller asks for no
/// weights). Not causal: the caller gives no masks.
struct TransformerSpec {
  std::int64_t width = 0, heads = 0, feedforward = 0;
  double dropout = 0;
};
/// Parameters of one layer under `path`; a decoder layer has a second attention.
void add_transformer_layer(TapeBuilder& tape, const TransformerSpec& spec, const std::string& path,
                           bool is_decoder);
/// x → x; `memory` is what a decoder layer attends to besides.
ValueIndex transformer_layer(TapeBuilder& tape, const LayerContext& context,
                             const TransformerSpec& spec, const std::string& path, ValueIndex x,
                             std::optional<ValueIndex> memory);

}  // namespace foregather::plan
