// The op key of a row of a run.
#pragma once

#include <string>

#include "core/run/run.h"

namespace foregather::run {

/// As foregather::op_key: "r0/s1/m0/layers.3.attn/backward/gemm/2", where the rank is the first of
/// the op's class.
std::string op_key(RunView run, OpRow row);

}  // namespace foregather::run
