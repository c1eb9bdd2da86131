// What torch.autocast does with parameters that are stored in fp32.
#pragma once

#include "core/plan/tape.h"

namespace foregather::plan {

/// Does the module's forward read the parameter in a matmul? Those are what autocast casts.
bool is_matmul_operand(const Tape& tape, ParameterIndex index);

}  // namespace foregather::plan
