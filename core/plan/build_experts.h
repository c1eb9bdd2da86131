// What the kinds of mixtures of experts share.
#pragma once

#include <string>

#include "core/plan/build_layers.h"

namespace foregather::plan {

/// Each row of x times its number, in the wider dtype of both.
ValueIndex times_numbers(TapeBuilder& tape, ValueIndex x, ValueIndex numbers,
                         const std::string& name);

/// The mixture of Llama 4 (modeling_llama4.py, Llama4TextMoe.forward): each expert computes all
/// tokens, those that did not choose it times 0.
ValueIndex mixture_over_all_tokens(TapeBuilder& tape, const LayerContext& context, ValueIndex x);

}  // namespace foregather::plan
