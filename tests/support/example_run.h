#pragma once

#include "core/run/run.h"

namespace foregather::test {

/// Two classes with a steady step each: class 0 computes 10 ns, gathers, computes; class 1 arrives
/// 5 ns late at the gather.
///
///   class 0   gemm 100…110   all_gather 110…130 (waits to 115)   gemm 130…150
///   class 1   gemm 100…115   all_gather 115…130                  norm 130…140
run::Run example_run();

}  // namespace foregather::test
