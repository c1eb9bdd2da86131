#include "core/plan/tied_gradients.h"

#include <algorithm>
#include <utility>

namespace foregather::plan {

namespace {

bool is_gradient_of(const Tape& tape, ValueIndex value, ParameterIndex index) {
  return tape.values[value].kind == ValueKind::parameter_grad &&
         tape.values[value].parameter == index;
}

/// The op that makes the parameter's gradient; none: it gets none.
const TapeOp* maker_of_gradient(const Tape& tape, ParameterIndex index) {
  for (const TapeOp& op : tape.backward)
    for (const ValueIndex value : op.writes)
      if (is_gradient_of(tape, value, index)) return &op;
  return nullptr;
}

}  // namespace

TiedGradients::TiedGradients(Lowering& lowering)
    : lowering_(lowering), rows_(lowering.layout.parameters.size()) {
  // The backward comes to the last module first.
  for (std::uint32_t m = lowering.modules(); m-- > 0;) {
    const Tape& tape = lowering.tape_of(m);
    for (ParameterIndex p = 0; p < tape.parameters.size(); ++p) {
      if (tape.parameters[p].tie.empty()) continue;
      const TapeOp* maker = maker_of_gradient(tape, p);
      if (maker == nullptr) continue;
      Row& row = rows_[lowering.layout.row_of(m, p)];
      if (row.shares++ == 0) row.makes_sum = maker->cost.kind == OpKind::gemm && !tape.is_compiled;
    }
  }
  for (Row& row : rows_) row.makes_sum = row.makes_sum && row.shares > 1;
}

std::optional<Buffer> TiedGradients::take(std::uint32_t index, const Buffer& share,
                                          const Owner& owner, bool was_cast, const Buffer* sum) {
  Row& row = rows_[index];
  if (row.shares <= 1) return share;
  if (row.arrived++ == 0) {
    row.held = share;
    row.adds_in_place = !row.makes_sum || was_cast;
  } else {
    add(row, share, owner, sum);
  }
  if (row.arrived < row.shares) return std::nullopt;
  row.arrived = 0;
  return std::exchange(row.held, {});
}

void TiedGradients::add(Row& row, const Buffer& share, const Owner& owner, const Buffer* sum) {
  Lowering& low = lowering_;
  const Buffer first = row.held;
  const DType type = low.builder.graph().at(share.tensor).dtype;
  if (row.adds_in_place) {
    scratch_.assign({reads(share), updates(first)});
  } else {
    if (sum == nullptr && !row.sum.storage)
      row.sum = low.buffer(share.bytes / size_of(type), type, "sum of a tied gradient",
                           Cause::gradient, owner);
    row.held = sum != nullptr ? *sum : row.sum;
    low.alloc(row.held, low.compute);
    scratch_.assign({reads(first), reads(share), writes(row.held)});
  }
  low.launch({OpKind::elementwise,
              Role::accumulate,
              low.compute,
              low.copy_cost(OpKind::elementwise, type, 2 * share.bytes, share.bytes),
              {}},
             owner, scratch_);
  if (!row.adds_in_place) low.free(first);
  low.free(share);
  row.adds_in_place = true;
}

}  // namespace foregather::plan
