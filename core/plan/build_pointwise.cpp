// Elementwise layers, one kernel an operator.
#include <optional>
#include <utility>

#include "core/plan/build_layers.h"

namespace foregather::plan {

namespace {

// Of an operator on both.
DType wider(DType a, DType b) { return size_of(b) > size_of(a) ? b : a; }

}  // namespace

ValueIndex power(TapeBuilder& t, ValueIndex x, const std::string& name,
                 std::vector<ValueIndex> holds) {
  const ValueIndex y = t.make(name, t.elements(x), t.dtype(x));
  OpSpec raise;
  raise.reads = {x};
  raise.writes = {y};
  raise.holds = std::move(holds);
  raise.flops = times(2, t.elements(x));
  t.op(std::move(raise));
  t.node({y}, [x](TapeBuilder& b, TapeBuilder::Gradients g) {
    const std::int64_t n = b.elements(x);
    const ValueIndex raised = b.scratch("power", n, b.dtype(x));
    b.elementwise({x}, {raised}, 2);
    const ValueIndex scaled = b.scratch("scaled power", n, b.dtype(x));
    b.elementwise({raised}, {scaled});
    const ValueIndex dx = b.make("grad " + b.name(x), n, b.dtype(x));
    OpSpec spec;
    spec.reads = {*g[0], scaled};
    spec.writes = {dx};
    spec.holds = {raised};
    spec.flops = n;
    b.op(std::move(spec));
    b.give(x, dx);
  });
  return y;
}

ValueIndex scale(TapeBuilder& t, ValueIndex x, const std::string& name) {
  const ValueIndex y = t.make(name, t.elements(x), t.dtype(x));
  t.elementwise({x}, {y});
  t.node({y}, [x](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    b.elementwise({*g[0]}, {dx});
    b.give(x, dx);
  });
  return y;
}

ValueIndex add(TapeBuilder& t, ValueIndex a, ValueIndex b, const std::string& name,
               std::vector<ValueIndex> holds, bool is_strided) {
  const ValueIndex y = t.make(name, t.elements(a), wider(t.dtype(a), t.dtype(b)));
  OpSpec spec;
  spec.reads = {a, b};
  spec.writes = {y};
  spec.holds = std::move(holds);
  spec.is_strided = is_strided;
  spec.flops = t.elements(a);
  t.op(std::move(spec));
  t.node({y}, [a, b](TapeBuilder& back, TapeBuilder::Gradients g) {
    // The engine casts a gradient to the dtype of what it belongs to.
    for (const ValueIndex x : {a, b})
      back.give(x, back.needs_gradient(x) ? narrowed(back, *g[0], x) : *g[0]);
  });
  return y;
}

ValueIndex multiply(TapeBuilder& t, ValueIndex a, ValueIndex b, const std::string& name,
                    std::vector<ValueIndex> holds) {
  const DType type = wider(t.dtype(a), t.dtype(b));
  const ValueIndex y = t.make(name, t.elements(a), type);
  OpSpec spec;
  spec.reads = {a, b};
  spec.writes = {y};
  spec.holds = std::move(holds);
  spec.flops = t.elements(a);
  t.op(std::move(spec));
  t.node({y}, [=](TapeBuilder& back, TapeBuilder::Gradients g) {
    std::optional<ValueIndex> db;
    if (back.needs_gradient(b)) {
      db = back.make("grad " + back.name(b), back.elements(b), type);
      back.elementwise({*g[0], a}, {*db});
    }
    if (back.needs_gradient(a)) {
      const ValueIndex da = back.make("grad " + back.name(a), back.elements(a), type);
      back.elementwise({*g[0], b}, {da});
      back.give(a, narrowed(back, da, a));
    }
    if (db) back.give(b, narrowed(back, *db, b));
  });
  return y;
}

ValueIndex activation(TapeBuilder& t, ValueIndex x, const std::string& name, std::int64_t flops,
                      bool saves_output) {
  const ValueIndex y = t.make(name, t.elements(x), t.dtype(x));
  t.elementwise({x}, {y}, flops);
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    b.elementwise({*g[0], saves_output ? y : x}, {dx}, flops);
    b.give(x, dx);
  });
  return y;
}

ValueIndex soft_capped(TapeBuilder& t, ValueIndex x, const std::string& name) {
  const ValueIndex part = scale(t, x, name + " / cap");
  return scale(t, activation(t, part, name + " tanh", 8, true), name + ", capped");
}

namespace {

// tanh(0.79788456 · x · (1 + 0.044715 · x · x)), operator by operator.
ValueIndex bloom_tanh(TapeBuilder& t, ValueIndex x) {
  const auto made = [&](const char* name, std::vector<ValueIndex> reads, std::int64_t flops = 1) {
    const ValueIndex y = t.scratch(name, t.elements(x), t.dtype(x));
    t.elementwise(std::move(reads), {y}, flops);
    return y;
  };
  const ValueIndex outer = made("gelu 0.8 x", {x});
  const ValueIndex inner = made("gelu 0.04 x", {x});
  const ValueIndex square = made("gelu 0.04 x^2", {inner, x});
  const ValueIndex shifted = made("gelu 1 + 0.04 x^2", {square});
  const ValueIndex argument = made("gelu argument", {outer, shifted});
  return made("gelu tanh", {argument}, 8);
}

}  // namespace

// transformers/models/bloom/modeling_bloom.py, bloom_gelu_forward, bloom_gelu_back.
ValueIndex bloom_gelu(TapeBuilder& t, ValueIndex x) {
  const auto made = [](TapeBuilder& b, ValueIndex like, const char* name,
                       std::vector<ValueIndex> reads, std::vector<ValueIndex> holds = {}) {
    OpSpec spec;
    spec.reads = std::move(reads);
    spec.writes = {b.scratch(name, b.elements(like), b.dtype(like))};
    spec.holds = std::move(holds);
    spec.flops = b.elements(like);
    const ValueIndex y = spec.writes.front();
    b.op(std::move(spec));
    return y;
  };
  const ValueIndex half = made(t, x, "gelu x/2", {x});
  const ValueIndex shifted = made(t, x, "gelu 1 + tanh", {bloom_tanh(t, x)});
  const ValueIndex y = t.make("gelu", t.elements(x), t.dtype(x));
  t.elementwise({half, shifted}, {y});
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex tanh = bloom_tanh(b, x);
    const ValueIndex half_x = made(b, x, "gelu x/2", {x});
    const ValueIndex square = made(b, x, "gelu tanh^2", {tanh});
    const ValueIndex rest = made(b, x, "gelu 1 - tanh^2", {square});
    const ValueIndex inner = made(b, x, "gelu 0.1 x", {x});
    const ValueIndex inner_square = made(b, x, "gelu 0.1 x^2", {inner, x});
    const ValueIndex slope = made(b, x, "gelu slope", {inner_square});
    const ValueIndex product = made(b, x, "gelu product", {rest, slope});
    const ValueIndex first = made(b, x, "gelu first term", {half_x, product});
    const ValueIndex raised = made(b, x, "gelu 1 + tanh", {tanh});
    const ValueIndex second = made(b, x, "gelu second term", {raised});
    const ValueIndex factor = made(b, x, "gelu derivative", {first, second});
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    OpSpec last;
    last.reads = {factor, *g[0]};
    last.writes = {dx};
    last.holds = {tanh};
    last.flops = b.elements(x);
    b.op(std::move(last));
    b.give(x, dx);
  });
  return y;
}

ValueIndex gelu(TapeBuilder& t, bool is_fused, ValueIndex x) {
  if (is_fused) return activation(t, x, "gelu", 10, false);
  // Python evaluates the factors from left to right; each temporary dies with its last use.
  const ValueIndex half = scale(t, x, "gelu x/2");
  // CUDA's autocast has pow among what it widens to fp32.
  const DType type = t.train().autocast ? DType::f32 : t.dtype(x);
  const ValueIndex cube = power(t, cast(t, x, type, "gelu x fp32"), "gelu x^3");
  const ValueIndex term = scale(t, cube, "gelu 0.044715 x^3");
  const ValueIndex sum = add(t, x, term, "gelu x + 0.044715 x^3");
  const ValueIndex inner = scale(t, sum, "gelu argument");
  const ValueIndex tanh = activation(t, inner, "gelu tanh", 8, true);
  const ValueIndex shifted = t.make("gelu 1 + tanh", t.elements(x), type);
  t.elementwise({tanh}, {shifted});
  t.node({shifted}, [tanh](TapeBuilder& b, TapeBuilder::Gradients g) { b.give(tanh, *g[0]); });
  return multiply(t, half, shifted, "gelu");
}

}  // namespace foregather::plan
