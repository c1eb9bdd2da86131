#include <utility>
#include <vector>

#include "core/plan/build_families.h"
#include "core/plan/model_names.h"

namespace foregather::plan {

ValueIndex activated(TapeBuilder& t, const LayerContext& context, ValueIndex x,
                     const std::string& name) {
  switch (context.config.activation) {
    case ModelConfig::Activation::silu: return activation(t, x, name, 4, false);
    case ModelConfig::Activation::gelu: return activation(t, x, name, 10, false);
    case ModelConfig::Activation::gelu_new: return gelu(t, false, x);
    case ModelConfig::Activation::relu: return activation(t, x, name, 1, true);
    // ReLUSquaredActivation, whose argument lives on.
    case ModelConfig::Activation::relu2:
      return power(t, activation(t, x, name, 1, true), name + " squared", {x});
    case ModelConfig::Activation::bloom_gelu: return bloom_gelu(t, x);
    case ModelConfig::Activation::quick_gelu: break;
  }
  // QuickGELUActivation: x · sigmoid(1.702 · x).
  const ValueIndex scaled = scale(t, x, name + " 1.702 x");
  return multiply(t, x, activation(t, scaled, name + " sigmoid", 4, true), name);
}

namespace {

// ClampBackward: where(a comparison or two, grad, 0).
ValueIndex clamped(TapeBuilder& t, ValueIndex x, bool both_ways, const std::string& name) {
  const ValueIndex y = t.make(name, t.elements(x), t.dtype(x));
  t.elementwise({x}, {y}, 2);
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    std::vector<ValueIndex> masks;
    for (int i = 0; i < (both_ways ? 2 : 1); ++i) {
      masks.push_back(b.scratch("mask of " + b.name(x), b.elements(x), DType::boolean));
      b.elementwise({x}, {masks.back()});
    }
    OpSpec where;
    where.reads = masks;
    where.reads.push_back(*g[0]);
    where.writes = {b.make("grad " + b.name(x), b.elements(x), b.dtype(x))};
    where.flops = b.elements(x);
    where.kernels = both_ways ? 2 : 1;
    const ValueIndex dx = where.writes.front();
    b.op(std::move(where));
    b.give(x, dx);
  });
  return y;
}

}  // namespace

ValueIndex clamped_gate(TapeBuilder& t, ValueIndex both, std::int64_t each) {
  const ValueIndex gate_view = slice(t, both, each, "experts' gate");
  const ValueIndex up_view = slice(t, both, each, "experts' up");
  const ValueIndex gate = clamped(t, gate_view, false, "experts' gate, clamped");
  const ValueIndex up = clamped(t, up_view, true, "experts' up, clamped");
  const ValueIndex scaled = scale(t, gate, "experts' 1.702 gate");
  const ValueIndex glu = multiply(t, gate, activation(t, scaled, "experts' sigmoid", 4, true),
                                  "experts' gate · sigmoid");
  const ValueIndex shifted = t.make("experts' up + 1", each, t.dtype(up));
  t.elementwise({up}, {shifted});
  t.node({shifted}, [up](TapeBuilder& b, TapeBuilder::Gradients g) { b.give(up, *g[0]); });
  return multiply(t, shifted, glu, "experts' product", {both, gate, up});
}

namespace {

std::string name_of(const LayerContext& context) {
  return context.config.activation == ModelConfig::Activation::silu ? "mlp silu(gate)"
                                                                    : "mlp gelu(gate)";
}

// Phi3MLP: one projection, two views.
ValueIndex fused_gate(TapeBuilder& t, const LayerContext& context, ValueIndex x) {
  const ModelConfig& c = context.config;
  const ModelNames& names = names_of(c.family);
  const ValueIndex both = linear(
      t, x,
      linear_of(t, "mlp gate and up", std::string(names.gate_up), c.hidden, 2 * c.intermediate));
  const std::int64_t each = context.tokens * c.intermediate;
  const auto parts = split(t, both, {{"mlp gate", each}, {"mlp up", each}});
  const ValueIndex product =
      multiply(t, activated(t, context, parts[0], name_of(context)), parts[1], "mlp product");
  return linear(t, product,
                linear_of(t, "mlp out", std::string(names.down), c.intermediate, c.hidden, {x}));
}

}  // namespace

ValueIndex gated_mlp(TapeBuilder& t, const LayerContext& context, ValueIndex x,
                     const std::string& gate, const std::string& up, const std::string& down,
                     std::int64_t intermediate) {
  const std::int64_t hidden = context.config.hidden;
  const ValueIndex gated = linear(t, x, linear_of(t, "mlp gate", gate, hidden, intermediate));
  const ValueIndex act = activated(t, context, gated, name_of(context));
  const ValueIndex raised = linear(t, x, linear_of(t, "mlp up", up, hidden, intermediate));
  const ValueIndex product = multiply(t, act, raised, "mlp product");
  return linear(t, product, linear_of(t, "mlp out", down, intermediate, hidden, {x}));
}

ValueIndex dense_mlp(TapeBuilder& t, const LayerContext& context, ValueIndex x) {
  const ModelConfig& c = context.config;
  const ModelNames& names = names_of(c.family);
  const std::string up(names.up);
  const std::string down(names.down);
  switch (c.mlp) {
    case ModelConfig::Mlp::gated:
      return gated_mlp(t, context, x, std::string(names.gate), up, down, c.intermediate);
    case ModelConfig::Mlp::gated_fused: return fused_gate(t, context, x);
    case ModelConfig::Mlp::plain: break;
  }
  const ValueIndex wide = linear(t, x, linear_of(t, "mlp in", up, c.hidden, c.intermediate));
  const bool is_relu = c.activation == ModelConfig::Activation::relu ||
                       c.activation == ModelConfig::Activation::relu2;
  return linear(t, activated(t, context, wide, is_relu ? "relu" : "gelu"),
                linear_of(t, "mlp out", down, c.intermediate, c.hidden, {x}));
}

}  // namespace foregather::plan
