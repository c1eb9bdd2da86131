// A small hand-made model for tests of the lowering: embedding, blocks of two linears with a
// residual, head with a loss.
#pragma once

#include <cstdint>

#include "core/plan/tape.h"
#include "core/plan/workload.h"

namespace foregather::test {

struct ToyShape {
  std::int64_t hidden = 64;
  std::int64_t inner = 160;
  std::int64_t vocab = 160;
  std::int64_t tokens = 16;
  std::uint32_t layers = 3;
  bool tied = false;
};

plan::Model toy_model(const ToyShape& shape);

/// FSDP2 in bf16 with fp32 reduction on `world` ranks, resolved.
plan::Workload toy_workload(std::uint32_t world);

}  // namespace foregather::test
