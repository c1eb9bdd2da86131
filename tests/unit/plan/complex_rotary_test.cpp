// torchtitan's rotary embedding: complex products, which compilers leave as they are.
#include <algorithm>
#include <string>
#include <catch2/catch.hpp>

#include "tests/unit/plan/model_live_bytes.h"

using namespace foregather;
using namespace foregather::plan;
using namespace foregather::test;

namespace {

Tape rotated_block(Implementation::Rotary rotary, Compile compile) {
  Train train;
  train.micro_batch = 1;
  train.seq_len = 4096;
  train.compile = compile;
  Implementation implementation;
  implementation.rotary = rotary;
  const Model model = build_model(sample("llama3_8b"), train, implementation);
  Tape tape = model.tapes[std::ranges::find_if(model.modules, &Module::is_block)->tape];
  CHECK(malformed(tape) == "");
  return tape;
}

std::int64_t products(const Tape& tape, const std::vector<TapeOp>& ops) {
  return std::ranges::count_if(ops, [&](const TapeOp& op) {
    return op.is_opaque && op.cost.kind == OpKind::elementwise &&
           tape.values[op.writes[0]].dtype == DType::f32;
  });
}

Bytes traffic(const std::vector<TapeOp>& ops) {
  Bytes sum = 0;
  for (const TapeOp& op : ops)
    if (op.cost.kind == OpKind::fused || op.is_opaque)
      sum += op.cost.bytes_read + op.cost.bytes_written;
  return sum;
}

}  // namespace

TEST_CASE("complex products of query and key stay kernels of their own when compiled") {
  for (const Compile compile : {Compile::none, Compile::per_block}) {
    const Tape tape = rotated_block(Implementation::Rotary::complex, compile);
    CHECK(products(tape, tape.forward) == 2);
    CHECK(products(tape, tape.backward) == 2);
  }
  // Where real ones read and write 2 bytes a value, they are widened, turned and narrowed.
  const Tape complex = rotated_block(Implementation::Rotary::complex, Compile::per_block);
  const Tape real = rotated_block(Implementation::Rotary::real, Compile::per_block);
  const Bytes values = 4096 * (4096 + 1024);
  const Bytes tables = 2 * 4096 * 128 * 4;
  const Bytes more = traffic(complex.forward) - traffic(real.forward);
  CHECK(more >= values * 16);
  CHECK(more <= values * 16 + tables);
}
