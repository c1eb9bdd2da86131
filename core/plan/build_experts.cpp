#include "core/plan/build_experts.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/plan/build_families.h"
#include "core/plan/build_router.h"
#include "core/plan/model_names.h"

namespace foregather::plan {

namespace {

// y = x[order].
void index_rows(TapeBuilder& t, ValueIndex x, ValueIndex order, ValueIndex y,
                std::vector<ValueIndex> holds = {}) {
  OpSpec gather;
  gather.kind = OpKind::copy;
  gather.reads = {x, order};
  gather.writes = {y};
  gather.holds = std::move(holds);
  gather.bytes_read = t.size(y) + t.size(order);
  t.op(std::move(gather));
}

// IndexBackward: sums rows into zeros, by a sort of the order.
void sum_rows(TapeBuilder& b, ValueIndex gradient, ValueIndex order, ValueIndex dx) {
  OpSpec add;
  add.kind = OpKind::embedding;
  add.reads = {gradient, order};
  add.writes = {dx};
  add.flops = b.elements(gradient);
  add.bytes_written = b.size(gradient) + b.size(dx);
  add.kernels = 2;
  b.op(std::move(add));
}

// x[order].
ValueIndex rows_of(TapeBuilder& t, ValueIndex x, ValueIndex order, std::int64_t elements,
                   const std::string& name) {
  const ValueIndex y = t.make(name, elements, t.dtype(x));
  index_rows(t, x, order, y);
  t.node({y}, [x, order](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    sum_rows(b, *g[0], order, dx);
    b.give(x, dx);
  });
  return y;
}

/// The routed experts of one block over N tokens: N · active rows, spread evenly
/// (transformers/integrations/moe.py, grouped_mm_experts_forward).
class Routed {
 public:
  Routed(TapeBuilder& t, const LayerContext& context)
      : t_(t), context_(context), c_(context.config), names_(names_of(c_.family)) {
    rows_ = times(context.tokens, c_.experts.active);
  }

  ValueIndex run(ValueIndex x) {
    choice_ = chosen_experts(t_, context_, x);
    sort(choice_.ids);
    const ValueIndex gathered = rows_of(t_, x, tokens_, times(rows_, c_.hidden), "rows by expert");
    const ValueIndex weights =
        rows_of(t_, choice_.weights, order_, rows_, "routing weights by expert");
    count_rows();
    const ValueIndex both = product_of(gathered, "gate_up_proj", c_.hidden,
                                       2 * c_.experts.intermediate, "experts' gate and up");
    const ValueIndex out =
        product_of(gated(both), "down_proj", c_.experts.intermediate, c_.hidden, "experts' out");
    locals_.insert(locals_.end(),
                   {x, gathered, weights, out, choice_.logits, choice_.weights, choice_.ids});
    return sum_by_token(times_numbers(t_, out, weights, "experts' out, weighed"));
  }
  /// Of the block's frame.
  std::vector<ValueIndex> held() const { return {choice_.logits, choice_.weights, choice_.ids}; }

 private:
  // torch.sort, and of which token each row is.
  void sort(ValueIndex ids) {
    order_ = t_.make("order of rows", rows_, DType::i64);
    tokens_ = t_.make("tokens of rows", rows_, DType::i64);
    OpSpec sort;
    sort.kind = OpKind::other;
    sort.reads = {ids};
    sorted_ = t_.make("sorted experts", rows_, DType::i64);
    sort.writes = {order_, tokens_, sorted_};
    locals_.insert(locals_.end(), {order_, sorted_});
    sort.kernels = 4;
    sort.host_ops = 2;
    t_.op(std::move(sort));
  }

  // Where the rows of each expert end.
  void count_rows() {
    ends_ = t_.make("ends of experts", c_.experts.count, DType::i32);
    OpSpec count;
    count.kind = OpKind::other;
    count.reads = {sorted_};
    const ValueIndex narrow = t_.scratch("sorted experts, narrow", rows_, DType::i32);
    count.writes = {ends_, narrow};
    locals_.insert(locals_.end(), {ends_, narrow});
    count.kernels = 3;
    count.host_ops = 3;
    t_.op(std::move(count));
  }

  // Autocast knows no grouped_mm: its input is made what the weights are.
  DType dtype() const { return t_.train().autocast ? DType::f32 : t_.compute(); }

  // torch.nn.functional.grouped_mm: one kernel for all experts.
  ValueIndex grouped(ValueIndex x, const char* weight_name, std::int64_t in, std::int64_t out,
                     const std::string& name) {
    const std::int64_t experts = c_.experts.count;
    const std::int64_t each = std::max<std::int64_t>(rows_ / experts, 1);
    const ValueIndex weight = t_.parameter(std::string(names_.experts) + "." + weight_name);
    const DType type = dtype();
    const ValueIndex y = t_.make(name, times(rows_, out), type);
    t_.gemm({x, weight, ends_}, y, experts, each, out, in, 2);
    const bool turned = c_.experts.biased_and_clamped;  // weights lie as [in, out]
    t_.node({y}, [=, ends = ends_](TapeBuilder& b, TapeBuilder::Gradients g) {
      if (b.needs_gradient(weight))
        b.weight_gemm({*g[0], x, ends}, b.gradient_of(weight), experts, turned ? in : out,
                      turned ? out : in, each, type);
      if (!b.needs_gradient(x)) return;
      const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), type);
      b.gemm({*g[0], weight, ends}, dx, experts, each, in, out);
      b.give(x, dx);
    });
    return y;
  }

  ValueIndex gated(ValueIndex both) {
    const std::int64_t each = times(rows_, c_.experts.intermediate);
    if (c_.experts.biased_and_clamped) return clamped_gate(t_, both, each);
    const auto parts = split(t_, both, {{"experts' gate", each}, {"experts' up", each}});
    return multiply(t_, activated(t_, context_, parts[0], "experts' silu(gate)"), parts[1],
                    "experts' product");
  }

  // With a bias: rows of it by expert, which a variable holds until the next, then added in place.
  ValueIndex product_of(ValueIndex x, const char* weight, std::int64_t in, std::int64_t out,
                        const std::string& name) {
    if (!c_.experts.biased_and_clamped) return grouped(x, weight, in, out, name);
    const ValueIndex bias = t_.parameter(std::string(names_.experts) + "." + weight + "_bias");
    const ValueIndex rows = t_.make(name + ", biases", times(rows_, out), dtype());
    index_rows(t_, bias, sorted_, rows,
               biases_ ? std::vector{*biases_} : std::vector<ValueIndex>{});
    t_.node({rows}, [=, sorted = sorted_](TapeBuilder& b, TapeBuilder::Gradients g) {
      if (b.needs_gradient(bias)) sum_rows(b, *g[0], sorted, b.gradient_of(bias));
    });
    biases_ = rows;
    if (out == c_.hidden) locals_.push_back(rows);
    const ValueIndex y = grouped(x, weight, in, out, name);
    const ValueIndex sum = t_.view(name + ", with bias", y, t_.elements(y));
    OpSpec add;
    add.reads = {rows};
    add.updates = {y};
    add.flops = t_.elements(y);
    t_.op(std::move(add));
    t_.node({sum}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
      b.give(y, *g[0]);
      b.give(rows, *g[0]);
    });
    return sum;
  }

  // Rows back in the order of tokens, then the sum of each token's. The gradient of the sum is the
  // same for all rows of a token: a view, which the next view copies.
  ValueIndex sum_by_token(ValueIndex x) {
    const ValueIndex back = t_.make("places of rows", rows_, DType::i64);
    OpSpec invert;
    invert.kind = OpKind::other;
    invert.reads = {order_};
    invert.writes = {back, t_.scratch("numbers of rows", rows_, DType::i64)};
    invert.kernels = 2;
    invert.host_ops = 3;
    t_.op(std::move(invert));
    const ValueIndex rows = rows_of(t_, x, back, t_.elements(x), "rows by token");
    const ValueIndex y = t_.make("experts' sum", times(context_.tokens, c_.hidden), t_.dtype(rows));
    OpSpec spec;
    spec.kind = OpKind::reduction;
    spec.reads = {rows};
    spec.writes = {y};
    spec.flops = t_.elements(rows);
    locals_.push_back(rows);
    spec.holds = locals_;
    t_.op(std::move(spec));
    t_.node({y}, [rows](TapeBuilder& b, TapeBuilder::Gradients g) {
      const ValueIndex dx = b.make("grad " + b.name(rows), b.elements(rows), b.dtype(rows));
      OpSpec spread;
      spread.kind = OpKind::copy;
      spread.reads = {*g[0]};
      spread.writes = {dx};
      b.op(std::move(spread));
      b.give(rows, dx);
    });
    if (t_.dtype(y) == dtype()) return y;
    const ValueIndex narrow = t_.make("experts' sum, narrow", t_.elements(y), dtype());
    OpSpec cast;
    cast.kind = OpKind::cast;
    cast.reads = {y};
    cast.writes = {narrow};
    cast.holds = locals_;
    t_.op(std::move(cast));
    t_.node({narrow},
            [y](TapeBuilder& b, TapeBuilder::Gradients g) { b.give(y, narrowed(b, *g[0], y)); });
    return narrow;
  }

  TapeBuilder& t_;
  const LayerContext& context_;
  const ModelConfig& c_;
  const ModelNames& names_;
  Choice choice_;
  std::int64_t rows_ = 0;
  ValueIndex order_ = 0, tokens_ = 0, sorted_ = 0, ends_ = 0;
  std::optional<ValueIndex> biases_;  ///< of the product before
  std::vector<ValueIndex> locals_;    ///< of the frames of experts and block, until the sum is made
};

// Qwen2MoeSparseMoeBlock: sigmoid(gate(x)) · expert(x), one value a token.
ValueIndex gated_shared(TapeBuilder& t, const LayerContext& context, ValueIndex x,
                        ValueIndex shared) {
  const ValueIndex logit =
      linear(t, x, linear_of(t, "shared gate", "mlp.shared_expert_gate", context.config.hidden, 1));
  const ValueIndex gate = activation(t, logit, "shared gate sigmoid", 4, true);
  const ValueIndex y = t.make("shared expert, gated", t.elements(shared));
  t.elementwise({gate, shared}, {y});
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(shared), b.elements(shared));
    b.elementwise({*g[0], gate}, {dx});
    const ValueIndex product = b.scratch("grad gate, unsummed", b.elements(shared), b.compute());
    b.elementwise({*g[0], shared}, {product});
    const ValueIndex dgate = b.make("grad " + b.name(gate), b.elements(gate));
    OpSpec sum;
    sum.kind = OpKind::reduction;
    sum.reads = {product};
    sum.writes = {dgate};
    sum.flops = b.elements(shared);
    b.op(std::move(sum));
    b.give(gate, dgate);
    b.give(shared, dx);
  });
  return y;
}

// x *= noise, in place. PhimoeTopKRouter's is of a view: CopySlices copies the gradient, gives its
// clone to MulBackward and copies the product back.
ValueIndex disturbed(TapeBuilder& t, ValueIndex x, bool is_view) {
  const ValueIndex noise = t.make("noise on tokens", t.elements(x), t.dtype(x));
  OpSpec draw;
  draw.kind = OpKind::fill;
  draw.writes = {noise};
  t.op(std::move(draw));
  const ValueIndex y = t.view(t.name(x) + ", disturbed", x, t.elements(x));
  OpSpec multiply;
  multiply.reads = {noise};
  multiply.updates = {x};
  multiply.flops = t.elements(x);
  t.op(std::move(multiply));
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const auto copied = [&](ValueIndex from, ValueIndex to) {
      OpSpec copy;
      copy.kind = OpKind::copy;
      copy.reads = {from};
      copy.writes = {to};
      b.op(std::move(copy));
      return to;
    };
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    if (!is_view) {
      b.elementwise({*g[0], noise}, {dx});
      return b.give(x, dx);
    }
    copied(*g[0], dx);
    const ValueIndex clone = b.scratch("grad of tokens, cloned", b.elements(x), b.dtype(x));
    const ValueIndex product = b.scratch("grad of tokens, times noise", b.elements(x), b.dtype(x));
    copied(dx, clone);
    b.elementwise({clone, noise}, {product});
    copied(product, dx);
    b.give(x, dx);
  });
  return y;
}

}  // namespace

ValueIndex times_numbers(TapeBuilder& t, ValueIndex x, ValueIndex numbers,
                         const std::string& name) {
  const DType type = t.dtype(numbers) == DType::f32 ? DType::f32 : t.dtype(x);
  const ValueIndex y = t.make(name, t.elements(x), type);
  t.elementwise({x, numbers}, {y});
  // MulBackward makes both gradients before the engine narrows the one and sums the other.
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    std::optional<ValueIndex> product;
    if (b.needs_gradient(numbers)) {
      product = b.scratch("grad routing, unsummed", b.elements(x), type);
      b.elementwise({*g[0], x}, {*product});
    }
    if (b.needs_gradient(x)) {
      const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), type);
      b.elementwise({*g[0], numbers}, {dx});
      b.give(x, narrowed(b, dx, x));
    }
    if (!product) return;
    const ValueIndex dn = b.make("grad " + b.name(numbers), b.elements(numbers), b.dtype(numbers));
    OpSpec sum;
    sum.kind = OpKind::reduction;
    sum.reads = {*product};
    sum.writes = {dn};
    sum.flops = b.elements(x);
    b.op(std::move(sum));
    b.give(numbers, dn);
  });
  return y;
}

ValueIndex mixture_of_experts(TapeBuilder& t, const LayerContext& context, ValueIndex x) {
  const ModelConfig& c = context.config;
  if (c.experts.take_all) return mixture_over_all_tokens(t, context, x);
  if (c.experts.noise) x = disturbed(t, disturbed(t, x, false), true);
  Routed routed(t, context);
  const auto of_experts = [&] {
    return routed.run(t.train().autocast ? x
                                         : cast(t, x, t.compute(), "tokens in the compute dtype"));
  };
  if (c.experts.shared == 0) return of_experts();
  const auto of_all = [&] {
    const std::string path(names_of(c.family).shared_expert);
    return gated_mlp(t, context, x, path + ".gate_proj", path + ".up_proj", path + ".down_proj",
                     c.experts.shared);
  };
  if (!c.experts.shared_gate) {
    const ValueIndex y = of_experts();
    return add(t, y, of_all(), "mixture of experts", routed.held());
  }
  // Qwen2MoeSparseMoeBlock.
  const ValueIndex shared = of_all();
  const ValueIndex y = of_experts();
  return add(t, y, gated_shared(t, context, x, shared), "mixture of experts", routed.held());
}

}  // namespace foregather::plan
