// Where the head ends and the loss begins.
#pragma once

#include <cstdint>
#include <optional>

#include "core/plan/lowering.h"

namespace foregather::plan {

/// In the last module, which holds head and loss.
struct LossPlace {
  std::uint32_t module = 0;
  std::uint32_t first = 0;          ///< op of the forward: the first of the loss
  std::uint32_t last_backward = 0;  ///< op of the backward: after it the output has its gradient
};

/// There a unit of the head ends, and the whole model where its call has no loss
/// (Train::loss_in_call). Nothing where head and loss alternate (Train::loss_chunks), and for
/// module trees, whose loss is a module of its own.
std::optional<LossPlace> loss_place(const Lowering& lowering);

}  // namespace foregather::plan
