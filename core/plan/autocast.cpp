#include "core/plan/autocast.h"

#include "core/plan/checkpoint.h"

namespace foregather::plan {

bool is_matmul_operand(const Tape& tape, ParameterIndex index) {
  for (const TapeOp& op : tape.forward) {
    // Products of fp32 numbers are those that autocast leaves alone.
    if (op.cost.kind != OpKind::gemm || op.cost.dtype == DType::f32) continue;
    for (const ValueIndex value : op.reads) {
      const Value& root = tape.values[storage_of(tape, value)];
      if (root.kind == ValueKind::parameter && root.parameter == index) return true;
    }
  }
  return false;
}

void cast_into(Lowering& lowering, const Buffer& from, const Buffer& to, DType type,
               const Owner& owner, std::vector<AccessedTensor>& scratch) {
  lowering.alloc(to, lowering.compute);
  scratch.assign({reads(from), writes(to)});
  lowering.launch({OpKind::cast,
                   Role::cast,
                   lowering.compute,
                   lowering.copy_cost(OpKind::cast, type, from.bytes, to.bytes),
                   {}},
                  owner, scratch);
}

}  // namespace foregather::plan
