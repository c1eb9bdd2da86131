#include "core/plan/padded_products.h"

namespace foregather::plan {

void pad_products(Tape& tape, const TapePart& part) {
  constexpr std::int64_t kWord = 8;
  const auto padded = [](std::int64_t size) { return (size + kWord - 1) / kWord * kWord; };
  for (auto* ops : {&tape.forward, &tape.backward})
    for (TapeOp& op : *ops) {
      if (!part.has(op) || op.cost.kind != OpKind::gemm || size_of(op.cost.dtype) != 2) continue;
      op.cost.n = padded(op.cost.n);
      op.cost.k = padded(op.cost.k);
    }
}

}  // namespace foregather::plan
