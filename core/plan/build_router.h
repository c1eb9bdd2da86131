// Which experts each token takes, and with which weights.
#pragma once

#include "core/plan/build_layers.h"

namespace foregather::plan {

/// What a router returns, which the block's frame keeps.
struct Choice {
  ValueIndex logits = 0;   ///< [N, experts]
  ValueIndex weights = 0;  ///< [N, active]
  ValueIndex ids = 0;      ///< [N, active], int64
};

/// The router of the model's kind (ModelConfig::Router) over x, [N, hidden].
Choice chosen_experts(TapeBuilder& tape, const LayerContext& context, ValueIndex x);

}  // namespace foregather::plan
