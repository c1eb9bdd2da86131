// torch.nn.utils.clip_grad_norm_ and FSDP1's own method of that name.
#pragma once

#include <span>

#include "core/plan/lowering.h"
#include "core/plan/strategy_schedule.h"

namespace foregather::plan {

/// Norm of each gradient, norm of the norms, a clipping factor, and all gradients × the factor.
/// Where gradients are sharded there is a sum over ranks: FSDP2 sums the stacked norms (4 bytes a
/// parameter), FSDP1 the norm of norms (tests/oracles, cases `clip`). Gradients are tensors of the
/// master dtype. The norms' own memory (a few bytes a tensor) is one allocation here, one a tensor
/// in PyTorch. No host wait. `by_tensor`: FSDP1 launches norms and products tensor by tensor, the
/// others as foreach ops.
void write_gradient_clip(Lowering& lowering, std::span<const OptimizedTensor> tensors,
                         std::span<const CommunicatorId> communicators, bool by_tensor);

}  // namespace foregather::plan
