#include <utility>
#include <vector>

#include "core/plan/build_experts.h"
#include "core/plan/build_families.h"
#include "core/plan/build_router.h"
#include "core/plan/model_names.h"

namespace foregather::plan {

namespace {

void reduce(TapeBuilder& t, ValueIndex x, ValueIndex y) {
  OpSpec sum;
  sum.kind = OpKind::reduction;
  sum.reads = {x};
  sum.writes = {y};
  sum.flops = t.elements(x);
  t.op(std::move(sum));
}

void copy_to(TapeBuilder& t, ValueIndex x, ValueIndex y) {
  OpSpec spec;
  spec.kind = OpKind::copy;
  spec.reads = {x};
  spec.writes = {y};
  t.op(std::move(spec));
}

// x.repeat(copies, 1).
ValueIndex repeated(TapeBuilder& t, ValueIndex x, std::int64_t copies, const std::string& name) {
  const ValueIndex y = t.make(name, times(t.elements(x), copies), t.dtype(x));
  copy_to(t, x, y);
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    reduce(b, *g[0], dx);
    b.give(x, dx);
  });
  return y;
}

// The sum over experts; its gradient is the same for all, which the view before it copies.
ValueIndex sum_over_experts(TapeBuilder& t, ValueIndex x, std::int64_t elements) {
  const ValueIndex y = t.make("experts' sum", elements, t.dtype(x));
  reduce(t, x, y);
  t.node({y}, [x](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    copy_to(b, *g[0], dx);
    b.give(x, dx);
  });
  return y;
}

// y += x.
ValueIndex added_in_place(TapeBuilder& t, ValueIndex y, ValueIndex x,
                          std::vector<ValueIndex> holds) {
  const ValueIndex sum = t.view("mixture of experts", y, t.elements(y));
  OpSpec add;
  add.reads = {x};
  add.updates = {y};
  add.holds = std::move(holds);
  add.flops = t.elements(y);
  t.op(std::move(add));
  t.node({sum}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    b.give(y, *g[0]);
    b.give(x, *g[0]);
  });
  return sum;
}

/// Llama4TextExperts.forward: weights lie as [experts, in, out].
class Experts {
 public:
  Experts(TapeBuilder& t, const LayerContext& context)
      : t_(t), context_(context), c_(context.config), rows_(context.tokens) {}

  ValueIndex run(ValueIndex x) {
    const std::int64_t inner = c_.experts.intermediate;
    const ValueIndex narrow = cast(t_, x, t_.compute(), "experts' tokens, narrow");
    const ValueIndex both =
        product(narrow, "gate_up_proj", c_.hidden, 2 * inner, "experts' gate and up", {x});
    const std::int64_t each = times(times(rows_, c_.experts.count), inner);
    const auto parts = split(t_, both, {{"experts' gate", each}, {"experts' up", each}});
    const ValueIndex act = activated(t_, context_, parts[0], "experts' silu(gate)");
    const ValueIndex gated = multiply(t_, parts[1], act, "experts' product");
    return product(gated, "down_proj", inner, c_.hidden, "experts' out", {x, both});
  }

 private:
  // torch.bmm.
  ValueIndex product(ValueIndex x, const char* name_of_weight, std::int64_t in, std::int64_t out,
                     const std::string& name, std::vector<ValueIndex> holds) {
    const std::int64_t experts = c_.experts.count, rows = rows_;
    const ValueIndex weight =
        t_.parameter(std::string(names_of(c_.family).experts) + "." + name_of_weight);
    const ValueIndex y = t_.make(name, times(times(rows, experts), out));
    t_.gemm({x, weight}, y, experts, rows, out, in, 1, false, std::move(holds));
    t_.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
      if (b.needs_gradient(weight))
        b.weight_gemm({x, *g[0]}, b.gradient_of(weight), experts, in, out, rows);
      if (!b.needs_gradient(x)) return;
      const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
      b.gemm({*g[0], weight}, dx, experts, rows, in, out);
      b.give(x, dx);
    });
    return y;
  }

  TapeBuilder& t_;
  const LayerContext& context_;
  const ModelConfig& c_;
  std::int64_t rows_;
};

}  // namespace

ValueIndex mixture_over_all_tokens(TapeBuilder& t, const LayerContext& context, ValueIndex x) {
  const ModelConfig& c = context.config;
  const Choice choice = chosen_experts(t, context, x);
  const ValueIndex rows = repeated(t, x, c.experts.count, "tokens of each expert");
  const ValueIndex numbers = copy(t, choice.weights, "routing weights by expert", false);
  const ValueIndex weighed = times_numbers(t, rows, numbers, "tokens of each expert, weighed");
  const ValueIndex out = Experts(t, context).run(weighed);
  const std::string path(names_of(c.family).shared_expert);
  const ValueIndex shared = gated_mlp(t, context, x, path + ".gate_proj", path + ".up_proj",
                                      path + ".down_proj", c.experts.shared);
  const ValueIndex sum = sum_over_experts(t, out, t.elements(x));
  return added_in_place(t, shared, sum, {x, choice.logits, choice.weights, weighed, out});
}

}  // namespace foregather::plan
