// Products that a compiler pads.
#pragma once

#include "core/plan/common_values.h"
#include "core/plan/tape.h"

namespace foregather::plan {

/// Inductor pads operands of 16-bit products whose rows begin at other places than multiples of 16
/// bytes (torch/_inductor/fx_passes/pad_mm.py; buffers, as logits are, get padded rows by
/// themselves: config.comprehensive_padding). Only the sizes that are priced change: what the
/// copies of small operands take is left out.
void pad_products(Tape& tape, const TapePart& part);

}  // namespace foregather::plan
