#include "core/plan/build_sinks.h"

#include <utility>

#include "core/plan/model_names.h"

namespace foregather::plan {

namespace {

// max(dim=-1).values: MaxBackward saves where the largest were, and puts its gradient there among
// zeros.
ValueIndex largest(TapeBuilder& t, ValueIndex x, std::int64_t rows, std::vector<ValueIndex> holds) {
  const ValueIndex y = t.make("largest scores", rows, t.dtype(x));
  const ValueIndex places = t.make("places of the largest scores", rows, DType::i64);
  OpSpec spec;
  spec.kind = OpKind::reduction;
  spec.reads = {x};
  spec.writes = {y, places};
  spec.holds = std::move(holds);
  spec.flops = t.elements(x);
  t.op(std::move(spec));
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    OpSpec spread;
    spread.kind = OpKind::copy;
    spread.reads = {*g[0], places};
    spread.writes = {dx};
    spread.kernels = 2;
    spread.host_ops = 2;
    b.op(std::move(spread));
    b.give(x, dx);
  });
  return y;
}

}  // namespace

void sink_gradient(TapeBuilder& b, ValueIndex rows) {
  const ValueIndex sinks = b.parameter(kSinks);
  if (!b.needs_gradient(sinks)) return;
  OpSpec sum;
  sum.kind = OpKind::reduction;
  sum.reads = {rows};
  sum.writes = {b.gradient_of(sinks)};
  sum.flops = b.elements(rows);
  b.op(std::move(sum));
}

ValueIndex with_sinks(TapeBuilder& t, const LayerContext& context, ValueIndex scores) {
  const std::int64_t rows = times(context.tokens, context.config.heads);
  const std::int64_t all = t.elements(scores) + rows;
  const ValueIndex joined = t.make("attention scores and sinks", all, t.dtype(scores));
  OpSpec cat;
  cat.kind = OpKind::copy;
  cat.reads = {scores, t.parameter(kSinks)};
  cat.writes = {joined};
  t.op(std::move(cat));
  t.node({joined}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    sink_gradient(b, b.view("grad sinks, unsummed", *g[0], rows));
    b.give(scores, b.view("grad " + b.name(scores), *g[0], b.elements(scores)));
  });
  const ValueIndex most = largest(t, joined, rows, {scores});
  const ValueIndex y = t.make("attention scores, less the largest", all, t.dtype(scores));
  OpSpec subtract;
  subtract.reads = {joined, most};
  subtract.writes = {y};
  subtract.holds = {scores};
  subtract.flops = all;
  t.op(std::move(subtract));
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex negative = b.scratch("grad largest, unsummed", all, b.dtype(y));
    b.elementwise({*g[0]}, {negative});
    const ValueIndex dmost = b.make("grad " + b.name(most), rows, b.dtype(y));
    OpSpec sum;
    sum.kind = OpKind::reduction;
    sum.reads = {negative};
    sum.writes = {dmost};
    sum.flops = all;
    b.op(std::move(sum));
    b.give(joined, *g[0]);
    b.give(most, dmost);
  });
  return y;
}

}  // namespace foregather::plan
