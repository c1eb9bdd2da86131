// Attention with sinks: a logit of each head that takes part in the softmax, and in nothing else.
#pragma once

#include "core/plan/build_layers.h"

namespace foregather::plan {

/// transformers/models/gpt_oss/modeling_gpt_oss.py, eager_attention_forward: the scores [B, heads,
/// S, S] and a column of sinks, less the largest of each row: [B, heads, S, S + 1]. A variable
/// holds the scores.
ValueIndex with_sinks(TapeBuilder& tape, const LayerContext& context, ValueIndex scores);

/// Backward only: the gradient of the sinks, a sum over as many rows as `rows` has values.
void sink_gradient(TapeBuilder& tape, ValueIndex rows);

}  // namespace foregather::plan
