#include "core/plan/build_layers.h"

#include <utility>

namespace foregather::plan {

namespace {

void copy_into(TapeBuilder& t, ValueIndex from, ValueIndex to, std::vector<ValueIndex> holds = {}) {
  OpSpec spec;
  spec.kind = OpKind::copy;
  spec.reads = {from};
  spec.writes = {to};
  spec.holds = std::move(holds);
  spec.is_strided = true;
  t.op(std::move(spec));
}

}  // namespace

void sum_columns(TapeBuilder& t, ValueIndex x, ValueIndex sum, std::vector<ValueIndex> holds) {
  OpSpec spec;
  spec.holds = std::move(holds);
  spec.kind = OpKind::reduction;
  spec.reads = {x};
  spec.writes = {sum};
  spec.flops = t.elements(x);
  t.op(std::move(spec));
}

void column_sum(TapeBuilder& t, ValueIndex gradient, ValueIndex bias,
                std::vector<ValueIndex> holds) {
  sum_columns(t, gradient, t.gradient_of(bias), std::move(holds));
}

ValueIndex narrowed(TapeBuilder& b, ValueIndex gradient, ValueIndex x) {
  if (b.dtype(gradient) == b.dtype(x)) return gradient;
  const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
  OpSpec spec;
  spec.kind = OpKind::cast;
  spec.reads = {gradient};
  spec.writes = {dx};
  b.op(std::move(spec));
  return dx;
}

ValueIndex dropout(TapeBuilder& t, ValueIndex x, double rate) {
  if (rate <= 0) return x;
  const ValueIndex y = t.make(t.name(x) + " dropped", t.elements(x), t.dtype(x));
  const ValueIndex mask = t.make(t.name(x) + " mask", t.elements(x), DType::boolean);
  t.elementwise({x}, {y, mask}, 3);
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    b.elementwise({*g[0], mask}, {dx}, 2);
    b.give(x, dx);
  });
  return y;
}

ValueIndex cast(TapeBuilder& t, ValueIndex x, DType dtype, const std::string& name) {
  if (t.dtype(x) == dtype) return x;
  const ValueIndex y = t.make(name, t.elements(x), dtype);
  OpSpec spec;
  spec.kind = OpKind::cast;
  spec.reads = {x};
  spec.writes = {y};
  t.op(std::move(spec));
  t.node({y}, [x](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    OpSpec back;
    back.kind = OpKind::cast;
    back.reads = {*g[0]};
    back.writes = {dx};
    b.op(std::move(back));
    b.give(x, dx);
  });
  return y;
}

ValueIndex copy(TapeBuilder& t, ValueIndex x, const std::string& name, bool copies_gradient,
                std::vector<ValueIndex> holds) {
  const ValueIndex y = t.make(name, t.elements(x), t.dtype(x));
  copy_into(t, x, y, std::move(holds));
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    if (!copies_gradient) return b.give(x, *g[0]);
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    copy_into(b, *g[0], dx);
    b.give(x, dx);
  });
  return y;
}

ValueIndex view_with_copied_gradient(TapeBuilder& t, ValueIndex x, const std::string& name) {
  const ValueIndex y = t.view(name, x, t.elements(x));
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    copy_into(b, *g[0], dx);
    b.give(x, dx);
  });
  return y;
}

ValueIndex slice(TapeBuilder& t, ValueIndex x, std::int64_t elements, const std::string& name) {
  const ValueIndex y = t.view(name, x, elements);
  t.node({y}, [x](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    OpSpec spec;
    spec.kind = OpKind::copy;
    spec.reads = {*g[0]};
    spec.writes = {dx};
    spec.bytes_read = b.size(*g[0]);
    spec.bytes_written = b.size(dx) + b.size(*g[0]);
    spec.m = b.elements(*g[0]);  // filled, then copied into a part
    spec.kernels = 2;
    spec.host_ops = 2;
    b.op(std::move(spec));
    b.give(x, dx);
  });
  return y;
}

std::vector<ValueIndex> split(TapeBuilder& t, ValueIndex x,
                              const std::vector<std::pair<std::string, std::int64_t>>& parts) {
  std::vector<ValueIndex> views;
  for (const auto& [name, elements] : parts) views.push_back(t.view(name, x, elements));
  t.node(views, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex joined = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    OpSpec cat;
    cat.kind = OpKind::copy;
    for (const auto& gradient : g)
      if (gradient) cat.reads.push_back(*gradient);
    cat.writes = {joined};
    b.op(std::move(cat));
    b.give(x, joined);
  });
  return views;
}

ValueIndex concatenate(TapeBuilder& t, const std::vector<ValueIndex>& parts,
                       const std::string& name) {
  std::int64_t elements = 0;
  for (const ValueIndex part : parts) elements += t.elements(part);
  const ValueIndex y = t.make(name, elements, t.dtype(parts.front()));
  OpSpec cat;
  cat.kind = OpKind::copy;
  cat.reads = parts;
  cat.writes = {y};
  t.op(std::move(cat));
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    for (const ValueIndex part : parts)
      b.give(part, b.view("grad " + b.name(part), *g[0], b.elements(part)));
  });
  return y;
}

}  // namespace foregather::plan
