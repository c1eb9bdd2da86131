#include "core/plan/autocast.h"

#include "core/plan/checkpoint.h"

namespace foregather::plan {

bool is_matmul_operand(const Tape& tape, ParameterIndex index) {
  for (const TapeOp& op : tape.forward) {
    if (op.cost.kind != OpKind::gemm) continue;
    for (const ValueIndex value : op.reads) {
      const Value& root = tape.values[storage_of(tape, value)];
      if (root.kind == ValueKind::parameter && root.parameter == index) return true;
    }
  }
  return false;
}

}  // namespace foregather::plan
