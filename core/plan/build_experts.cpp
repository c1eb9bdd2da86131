#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/plan/build_families.h"
#include "core/plan/model_names.h"

namespace foregather::plan {

namespace {

// x[order]: IndexBackward sums rows into zeros, by a sort of the order.
ValueIndex rows_of(TapeBuilder& t, ValueIndex x, ValueIndex order, std::int64_t elements,
                   const std::string& name) {
  const ValueIndex y = t.make(name, elements, t.dtype(x));
  OpSpec gather;
  gather.kind = OpKind::copy;
  gather.reads = {x, order};
  gather.writes = {y};
  gather.bytes_read = t.size(y) + t.size(order);
  t.op(std::move(gather));
  t.node({y}, [x, order](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    OpSpec add;
    add.kind = OpKind::embedding;
    add.reads = {*g[0], order};
    add.writes = {dx};
    add.flops = b.elements(*g[0]);
    add.bytes_written = b.size(*g[0]) + b.size(dx);
    add.kernels = 2;
    b.op(std::move(add));
    b.give(x, dx);
  });
  return y;
}

/// Which experts each token takes, and with which weights: the routers of transformers 5.
class Choice {
 public:
  Choice(TapeBuilder& t, const LayerContext& context)
      : t_(t),
        c_(context.config),
        router_(c_.experts.router),
        tokens_(context.tokens),
        weights_(times(tokens_, c_.experts.active)),
        scores_(times(tokens_, c_.experts.count)) {}

  ValueIndex ids() const { return ids_; }
  ValueIndex run(ValueIndex x) {
    logits_ = product(x);
    ValueIndex& y = weights_of_tokens_;
    if (router_.of_chosen)
      return y = activation(t_, chosen(logits_), "routing weights, normalized", 5, true);
    y = chosen(probabilities(logits_));
    if (router_.sums_to_one) y = normalized(y);
    if (router_.scaled) y = scale(t_, y, "routing weights, scaled");
    if (router_.narrow) y = cast(t_, y, t_.compute(), "routing weights, narrow");
    return y;
  }
  /// What the router returned, which the block's frame keeps.
  std::vector<ValueIndex> returned() const { return {logits_, weights_of_tokens_, ids_}; }

 private:
  ValueIndex product(ValueIndex x) {
    const std::string module(names_of(c_.family).router);
    // Autocast narrows what was widened.
    if (!router_.f32_product || t_.compute() == DType::f32 || t_.train().autocast)
      return linear(t_, x, linear_of(t_, "router logits", module, c_.hidden, c_.experts.count));
    return wide_product(cast(t_, x, DType::f32, "tokens, fp32"), t_.parameter(module + ".weight"));
  }

  ValueIndex wide_product(ValueIndex x, ValueIndex weight) {
    const std::int64_t m = tokens_, n = c_.experts.count, k = c_.hidden;
    const ValueIndex wide = t_.make("router weight, fp32", t_.elements(weight), DType::f32);
    widen(t_, weight, wide);
    t_.note_product(x, weight);
    const ValueIndex y = t_.make("router logits", scores_, DType::f32);
    t_.gemm({x, wide}, y, 1, m, n, k, 2);
    t_.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
      if (b.needs_gradient(weight)) {
        const ValueIndex dw = b.make("grad router weight, fp32", b.elements(weight), DType::f32);
        b.weight_gemm({*g[0], x}, dw, 1, n, k, m);
        widen(b, dw, b.gradient_of(weight));
      }
      if (!b.needs_gradient(x)) return;
      const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), DType::f32);
      b.gemm({*g[0], wide}, dx, 1, m, k, n);
      b.give(x, dx);
    });
    return y;
  }

  static void widen(TapeBuilder& t, ValueIndex from, ValueIndex to) {
    OpSpec spec;
    spec.kind = OpKind::cast;
    spec.reads = {from};
    spec.writes = {to};
    t.op(std::move(spec));
  }

  // In fp32. Qwen's softmax widens as it reads.
  ValueIndex probabilities(ValueIndex logits) {
    constexpr std::int64_t kFlops = 5;
    if (!router_.narrow)
      return activation(t_, cast(t_, logits, DType::f32, "router logits, fp32"),
                        "router probabilities", kFlops, true);
    const ValueIndex y = t_.make("router probabilities", scores_, DType::f32);
    t_.elementwise({logits}, {y}, kFlops);
    t_.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
      const ValueIndex dx = b.make("grad " + b.name(logits), b.elements(logits), b.dtype(logits));
      b.elementwise({*g[0], y}, {dx}, kFlops);
      b.give(logits, dx);
    });
    return y;
  }

  // The `active` largest. Where a bias takes part, of sums with it; DeepSeek masks all but some
  // groups before.
  ValueIndex chosen(ValueIndex all) {
    const DType type = t_.dtype(all);
    const ValueIndex top = t_.make("routing weights", weights_, type);
    ids_ = t_.make("chosen experts", weights_, DType::i64);
    OpSpec choose;
    choose.kind = OpKind::other;
    choose.reads = {all};
    choose.writes = {top, ids_};
    choose.kernels = !router_.sigmoid ? 2 : router_.f32_product ? 14 : 4;
    choose.host_ops = static_cast<float>(choose.kernels);
    if (router_.sigmoid) choose.writes.push_back(t_.scratch("biased scores", scores_, DType::f32));
    t_.op(std::move(choose));
    t_.node({top}, [=, ids = ids_](TapeBuilder& b, TapeBuilder::Gradients g) {
      const ValueIndex dx = b.make("grad " + b.name(all), b.elements(all), type);
      OpSpec spread;
      spread.kind = OpKind::copy;
      spread.reads = {*g[0], ids};
      spread.writes = {dx};
      spread.kernels = 2;
      b.op(std::move(spread));
      b.give(all, dx);
    });
    return top;
  }

  // weights /= weights.sum(): in place, so that DivBackward saves a copy of what was there.
  ValueIndex normalized(ValueIndex weights) {
    const ValueIndex sum = t_.make("sums of routing weights", tokens_, DType::f32);
    OpSpec add;
    add.kind = OpKind::reduction;
    add.reads = {weights};
    add.writes = {sum};
    add.flops = weights_;
    t_.op(std::move(add));
    const ValueIndex before = t_.make("routing weights, as they were", weights_, DType::f32);
    OpSpec keep;
    keep.kind = OpKind::copy;
    keep.reads = {weights};
    keep.writes = {before};
    t_.op(std::move(keep));
    const ValueIndex y = t_.view("routing weights, normalized", weights, weights_);
    OpSpec divide;
    divide.reads = {sum};
    divide.updates = {weights};
    divide.flops = weights_;
    t_.op(std::move(divide));
    t_.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
      const ValueIndex dx = b.make("grad " + b.name(weights), b.elements(weights), DType::f32);
      OpSpec divided;
      divided.reads = {*g[0], before, sum};
      divided.writes = {dx};
      divided.flops = 6 * b.elements(weights);
      divided.kernels = 6;
      divided.host_ops = 4;
      b.op(std::move(divided));
      b.give(weights, dx);
    });
    return y;
  }

  TapeBuilder& t_;
  const ModelConfig& c_;
  const ModelConfig::Router& router_;
  std::int64_t tokens_, weights_, scores_;
  ValueIndex logits_ = 0, weights_of_tokens_ = 0, ids_ = 0;
};

/// The routed experts of one block over N tokens: N · active rows, spread evenly
/// (transformers/integrations/moe.py, grouped_mm_experts_forward).
class Routed {
 public:
  Routed(TapeBuilder& t, const LayerContext& context)
      : t_(t),
        context_(context),
        c_(context.config),
        names_(names_of(c_.family)),
        choice_(t, context) {
    rows_ = times(context.tokens, c_.experts.active);
  }

  ValueIndex run(ValueIndex x) {
    const ValueIndex by_token = choice_.run(x);
    sort(choice_.ids());
    const ValueIndex gathered = rows_of(t_, x, tokens_, times(rows_, c_.hidden), "rows by expert");
    const ValueIndex weights = rows_of(t_, by_token, order_, rows_, "routing weights by expert");
    count_rows(choice_.ids());
    const ValueIndex both = product_of(gathered, "gate_up_proj", c_.hidden,
                                       2 * c_.experts.intermediate, "experts' gate and up");
    const ValueIndex out =
        product_of(gated(both), "down_proj", c_.experts.intermediate, c_.hidden, "experts' out");
    locals_.insert(locals_.end(), {x, gathered, weights, out});
    for (const ValueIndex each_returned : returned()) locals_.push_back(each_returned);
    return sum_by_token(weigh(out, weights));
  }
  std::vector<ValueIndex> returned() const { return choice_.returned(); }

 private:
  // torch.sort, and of which token each row is.
  void sort(ValueIndex ids) {
    order_ = t_.make("order of rows", rows_, DType::i64);
    tokens_ = t_.make("tokens of rows", rows_, DType::i64);
    OpSpec sort;
    sort.kind = OpKind::other;
    sort.reads = {ids};
    const ValueIndex sorted = t_.make("sorted experts", rows_, DType::i64);
    sort.writes = {order_, tokens_, sorted};
    sorted_ = sorted;
    locals_.insert(locals_.end(), {order_, sorted});
    sort.kernels = 4;
    sort.host_ops = 2;
    t_.op(std::move(sort));
  }

  // Where the rows of each expert end.
  void count_rows(ValueIndex ids) {
    ends_ = t_.make("ends of experts", c_.experts.count, DType::i32);
    OpSpec count;
    count.kind = OpKind::other;
    count.reads = {ids};
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
                      turned ? out : in, each);
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
    OpSpec gather;
    gather.kind = OpKind::copy;
    gather.reads = {bias, sorted_};
    gather.writes = {rows};
    gather.bytes_read = t_.size(rows) + t_.size(sorted_);
    if (biases_) gather.holds = {*biases_};
    t_.op(std::move(gather));
    t_.node({rows}, [=, sorted = sorted_](TapeBuilder& b, TapeBuilder::Gradients g) {
      if (!b.needs_gradient(bias)) return;
      OpSpec add;
      add.kind = OpKind::embedding;
      add.reads = {*g[0], sorted};
      add.writes = {b.gradient_of(bias)};
      add.flops = b.elements(*g[0]);
      add.bytes_written = b.size(*g[0]) + b.size(add.writes.front());
      add.kernels = 2;
      b.op(std::move(add));
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

  // Each row times its routing weight, in the wider dtype of both.
  ValueIndex weigh(ValueIndex x, ValueIndex weights) {
    const DType type = t_.dtype(weights) == DType::f32 ? DType::f32 : t_.dtype(x);
    const ValueIndex y = t_.make("experts' out, weighed", t_.elements(x), type);
    t_.elementwise({x, weights}, {y});
    // MulBackward makes both gradients before the engine narrows the one and sums the other.
    t_.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
      std::optional<ValueIndex> product;
      if (b.needs_gradient(weights)) {
        product = b.scratch("grad routing, unsummed", b.elements(x), type);
        b.elementwise({*g[0], x}, {*product});
      }
      if (b.needs_gradient(x)) {
        const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), type);
        b.elementwise({*g[0], weights}, {dx});
        b.give(x, narrowed(b, dx, x));
      }
      if (!product) return;
      const ValueIndex dw =
          b.make("grad " + b.name(weights), b.elements(weights), b.dtype(weights));
      OpSpec sum;
      sum.kind = OpKind::reduction;
      sum.reads = {*product};
      sum.writes = {dw};
      sum.flops = b.elements(x);
      b.op(std::move(sum));
      b.give(weights, dw);
    });
    return y;
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

}  // namespace

ValueIndex mixture_of_experts(TapeBuilder& t, const LayerContext& context, ValueIndex x) {
  const ModelConfig& c = context.config;
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
    return add(t, y, of_all(), "mixture of experts", routed.returned());
  }
  // Qwen2MoeSparseMoeBlock.
  const ValueIndex shared = of_all();
  const ValueIndex y = of_experts();
  return add(t, y, gated_shared(t, context, x, shared), "mixture of experts", routed.returned());
}

}  // namespace foregather::plan
