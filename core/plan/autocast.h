// What torch.autocast does with parameters that are stored in fp32.
#pragma once

#include <vector>

#include "core/plan/lowering.h"
#include "core/plan/tape.h"

namespace foregather::plan {

/// Does the module's forward read the parameter in a matmul that autocast knows? Those are what it
/// casts (grouped products of experts are none).
bool is_matmul_operand(const Tape& tape, ParameterIndex index);

/// Allocates `to`, which is of dtype `type`, and casts into it, on the compute stream.
void cast_into(Lowering& lowering, const Buffer& from, const Buffer& to, DType type,
               const Owner& owner, std::vector<AccessedTensor>& scratch);

}  // namespace foregather::plan
