#include "traces/thunder_costs.h"

#include <algorithm>

#include "core/ir/references.h"

namespace foregather::traces {
namespace {

using Type = const ThunderTensorType*;

/// Sums and products that stop at what a graph may hold.
std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kMostWork : std::min(sum, kMostWork);
}
std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMostWork : std::min(product, kMostWork);
}

std::int64_t elements_of(Type type) {
  return type != nullptr ? elements(type->dims).value_or(0) : 0;
}
Bytes size_of_type(Type type) { return type != nullptr ? bytes_of(*type).value_or(0) : 0; }

bool has_causal(const ThunderCall& call) {
  if (const ThunderValue* const named = call.keyword("is_causal")) return named->text == "True";
  bool causal = false;
  each_child(call.node(), [&](const ThunderValue& value) { causal |= value.text == "True"; });
  return causal;
}

/// Of one statement.
class Costs {
 public:
  Costs(const ThunderFile& file, const ThunderTypes& types, std::uint32_t row)
      : file_(file), types_(types), row_(row), statement_(file.statements[row]) {}

  std::vector<Cost> all() {
    const ThunderValue* const node = file_.call_of(statement_);
    if (node == nullptr) return {};
    const ThunderCall call(*node);
    const ThunderSymbol symbol = thunder_symbol(call.callee());
    Cost cost = streaming(call, symbol.kind);
    if (symbol.kind == OpKind::fused) return fusion(cost);
    if (symbol.kind == OpKind::gemm) return {product(statement_, call, cost)};
    if (symbol.kind == OpKind::attention)
      return {attention(call, symbol.shape == ThunderShape::attention_backward, cost)};
    return {cost};
  }

 private:
  Cost streaming(const ThunderCall& call, OpKind kind) const {
    Cost cost;
    cost.kind = kind;
    bool has_type = false;
    each_name(call.node(), [&](ThunderName name) {
      cost.bytes_read = plus(cost.bytes_read, size_of_type(types_.of(name)));
      if (types_.of(name) == nullptr || has_type) return;
      cost.dtype = types_.of(name)->dtype.type;
      has_type = true;
    });
    for (const ThunderName name : file_.targets_of(statement_)) {
      cost.bytes_written = plus(cost.bytes_written, size_of_type(types_.of(name)));
      cost.flops = plus(cost.flops, elements_of(types_.of(name)));
    }
    // A look-up reads what it writes, not its whole table.
    if (kind == OpKind::embedding)
      cost.bytes_read = std::min(cost.bytes_read, times(2, cost.bytes_written));
    if (kind == OpKind::fill) cost.flops = cost.bytes_read = 0;
    cost.bytes_read = std::min(cost.bytes_read, kMostBytes);
    cost.bytes_written = std::min(cost.bytes_written, kMostBytes);
    return cost;
  }

  // (…, m, k) × (…, k, n). What has no such shape streams.
  Cost product(const ThunderStatement& statement, const ThunderCall& call, Cost cost) const {
    const auto targets = file_.targets_of(statement);
    const Type out = targets.empty() ? nullptr : types_.of(targets.front());
    // addmm(bias, a, b)
    const std::size_t first =
        last_component(call.callee()).find("add") != std::string_view::npos ? 1 : 0;
    const Type a = types_.of(call.name(first)), b = types_.of(call.name(first + 1));
    cost.kind = OpKind::gemm;
    if (out == nullptr || a == nullptr || a->dims.empty() || out->dims.empty()) {
      cost.kind = OpKind::elementwise;
      return cost;
    }
    cost.dtype = a->dtype.type;
    cost.n = out->dims.back();
    cost.k = a->dims.back();
    cost.batch = 1;
    std::size_t batches = 0;
    const bool is_linear = last_component(call.callee()).find("linear") != std::string_view::npos;
    if (!is_linear && b != nullptr && b->dims.size() > 2 && out->dims.size() > 2)
      batches = out->dims.size() - 2;
    cost.m = 1;
    for (std::size_t i = 0; i + 1 < out->dims.size(); ++i) {
      std::int64_t& size = i < batches ? cost.batch : cost.m;
      size = times(size, out->dims[i]);
    }
    // A convolution multiplies each output with a filter.
    if (last_component(call.callee()).find("conv") != std::string_view::npos) {
      if (b == nullptr || b->dims.empty() || b->dims[0] <= 0) return cost;
      cost.n = b->dims[0];
      cost.k = elements_of(b) / b->dims[0];
      cost.m = elements_of(out) / cost.n;
      cost.batch = 1;
    }
    cost.flops = times(times(2, cost.batch), times(times(cost.m, cost.n), cost.k));
    if (cost.flops == 0) cost.kind = OpKind::elementwise;
    if (cost.flops == 0) cost.m = cost.n = cost.k = cost.batch = 0;
    return cost;
  }

  Cost attention(const ThunderCall& call, bool backward, Cost cost) const {
    const std::size_t first = backward ? 1 : 0;
    const Type query = types_.of(call.name(first)), key = types_.of(call.name(first + 1));
    if (query == nullptr || query->dims.size() < 3) {
      cost.kind = OpKind::elementwise;
      return cost;
    }
    const std::size_t rank = query->dims.size();
    cost.dtype = query->dtype.type;
    cost.m = query->dims[rank - 2];
    cost.n = key != nullptr && key->dims.size() == rank ? key->dims[rank - 2] : cost.m;
    cost.k = query->dims[rank - 1];
    cost.batch = 1;
    for (std::size_t i = 0; i + 2 < rank; ++i) cost.batch = times(cost.batch, query->dims[i]);
    const std::int64_t products = backward ? 5 : 2;
    cost.flops = times(times(products * 2, cost.batch), times(times(cost.m, cost.n), cost.k));
    if (has_causal(call)) cost.flops /= 2;
    if (cost.flops == 0) {
      cost.kind = OpKind::elementwise;
      cost.m = cost.n = cost.k = cost.batch = 0;
    }
    return cost;
  }

  std::vector<Cost> fusion(Cost rest) const {
    std::vector<Cost> costs;
    std::int64_t flops = 0;
    for (std::uint32_t row = row_ + 1; row < statement_.end; ++row) {
      const ThunderStatement& inner = file_.statements[row];
      const ThunderValue* const node = file_.call_of(inner);
      // Of a symbol with sub-symbols, these count.
      if (node == nullptr || inner.end > row + 1) continue;
      const ThunderCall call(*node);
      if (thunder_symbol(call.callee()).kind == OpKind::gemm) {
        Costs one(file_, types_, row);
        const Cost cost = one.product(inner, call, one.streaming(call, OpKind::gemm));
        if (cost.kind == OpKind::gemm) costs.push_back(cost);
        continue;
      }
      for (const ThunderName name : file_.targets_of(inner))
        flops = plus(flops, elements_of(types_.of(name)));
    }
    rest.flops = std::max(rest.flops, flops);
    costs.push_back(rest);
    return costs;
  }

  const ThunderFile& file_;
  const ThunderTypes& types_;
  std::uint32_t row_;
  const ThunderStatement& statement_;
};

}  // namespace

std::vector<Cost> thunder_costs(const ThunderFile& file, const ThunderTypes& types,
                                std::uint32_t statement) {
  return Costs(file, types, statement).all();
}

}  // namespace foregather::traces
