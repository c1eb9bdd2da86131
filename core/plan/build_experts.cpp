#include <algorithm>
#include <utility>

#include "core/plan/build_families.h"
#include "core/plan/model_names.h"

namespace foregather::plan {

namespace {

/// The routed experts of one block over N tokens: N · active rows, spread evenly.
class Routed {
 public:
  Routed(TapeBuilder& t, const LayerContext& context)
      : t_(t), context_(context), c_(context.config), names_(names_of(c_.family)) {
    rows_ = times(context.tokens, c_.experts.active);
  }

  ValueIndex run(ValueIndex x) {
    const ValueIndex weights = route(x);
    const ValueIndex gathered = permute(x);
    const ValueIndex both = grouped(gathered, "gate_up_proj", c_.hidden,
                                    2 * c_.experts.intermediate, "experts' gate and up");
    const std::int64_t each = times(rows_, c_.experts.intermediate);
    const auto parts = split(t_, both, {{"experts' gate", each}, {"experts' up", each}});
    const ValueIndex product = multiply(
        t_, activated(t_, context_, parts[0], "experts' silu(gate)"), parts[1], "experts' product");
    const ValueIndex out =
        grouped(product, "down_proj", c_.experts.intermediate, c_.hidden, "experts' out");
    return sum_by_token(weigh(out, weights));
  }

 private:
  // Logits, softmax in fp32 (DeepSeek-V3: sigmoid), the `active` largest, made to sum to one.
  ValueIndex route(ValueIndex x) {
    const ValueIndex logits = linear(
        t_, x,
        linear_of(t_, "router logits", std::string(names_.router), c_.hidden, c_.experts.count));
    const ValueIndex wide = cast(t_, logits, DType::f32, "router logits, fp32");
    const ValueIndex all = activation(t_, wide, "router probabilities", 5, true);
    const ValueIndex top = t_.make("routing weights", rows_, DType::f32);
    ids_ = t_.make("chosen experts", rows_, DType::i64);
    OpSpec choose;
    choose.kind = OpKind::other;
    choose.reads = {all};
    choose.writes = {top, ids_};
    choose.kernels = 2;
    t_.op(std::move(choose));
    t_.node({top}, [all, ids = ids_](TapeBuilder& b, TapeBuilder::Gradients g) {
      const ValueIndex dx = b.make("grad " + b.name(all), b.elements(all), DType::f32);
      OpSpec spread;
      spread.kind = OpKind::copy;
      spread.reads = {*g[0], ids};
      spread.writes = {dx};
      spread.kernels = 2;
      b.op(std::move(spread));
      b.give(all, dx);
    });
    const ValueIndex scaled = activation(t_, top, "routing weights, normalized", 3, true);
    return cast(t_, scaled, t_.compute(), "routing weights, narrow");
  }

  // Rows of x in the order of their experts: argsort, histogram, gather. The gradient is summed
  // back by index.
  ValueIndex permute(ValueIndex x) {
    order_ = t_.make("order of rows", rows_, DType::i64);
    OpSpec sort;
    sort.kind = OpKind::other;
    sort.reads = {ids_};
    sort.writes = {order_, t_.scratch("sorted experts", rows_, DType::i64)};
    sort.kernels = 6;
    sort.host_ops = 4;
    t_.op(std::move(sort));
    const ValueIndex y = t_.make("rows by expert", times(rows_, c_.hidden));
    OpSpec gather;
    gather.kind = OpKind::copy;
    gather.reads = {x, order_};
    gather.writes = {y};
    gather.bytes_read = t_.size(y) + t_.size(order_);
    t_.op(std::move(gather));
    t_.node({y}, [x, order = order_](TapeBuilder& b, TapeBuilder::Gradients g) {
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

  // torch._grouped_mm: one kernel for all experts.
  ValueIndex grouped(ValueIndex x, const char* weight_name, std::int64_t in, std::int64_t out,
                     const std::string& name) {
    const std::int64_t experts = c_.experts.count;
    const std::int64_t each = std::max<std::int64_t>(rows_ / experts, 1);
    const ValueIndex weight = t_.parameter(std::string(names_.experts) + "." + weight_name);
    const ValueIndex y = t_.make(name, times(rows_, out));
    t_.gemm({x, weight}, y, experts, each, out, in, 2);
    t_.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
      if (b.needs_gradient(weight))
        b.weight_gemm({*g[0], x}, b.gradient_of(weight), experts, out, in, each);
      if (!b.needs_gradient(x)) return;
      const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x));
      b.gemm({*g[0], weight}, dx, experts, each, in, out);
      b.give(x, dx);
    });
    return y;
  }

  // Each row times its routing weight.
  ValueIndex weigh(ValueIndex x, ValueIndex weights) {
    const ValueIndex y = t_.make("experts' out, weighed", t_.elements(x));
    t_.elementwise({x, weights}, {y});
    t_.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
      if (b.needs_gradient(weights)) {
        const ValueIndex product = b.scratch("grad routing, unsummed", b.elements(x), b.dtype(x));
        b.elementwise({*g[0], x}, {product});
        const ValueIndex dw =
            b.make("grad " + b.name(weights), b.elements(weights), b.dtype(weights));
        OpSpec sum;
        sum.kind = OpKind::reduction;
        sum.reads = {product};
        sum.writes = {dw};
        sum.flops = b.elements(x);
        b.op(std::move(sum));
        b.give(weights, dw);
      }
      if (!b.needs_gradient(x)) return;
      const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x));
      b.elementwise({*g[0], weights}, {dx});
      b.give(x, dx);
    });
    return y;
  }

  // Rows back in the order of tokens, then the sum of each token's.
  ValueIndex sum_by_token(ValueIndex x) {
    const ValueIndex y = t_.make("experts' sum", times(context_.tokens, c_.hidden));
    OpSpec spec;
    spec.kind = OpKind::reduction;
    spec.reads = {x, order_};
    spec.writes = {y, t_.scratch("rows by token", t_.elements(x), t_.dtype(x))};
    spec.flops = t_.elements(x);
    spec.kernels = 2;
    spec.host_ops = 2;
    t_.op(std::move(spec));
    t_.node({y}, [x, order = order_](TapeBuilder& b, TapeBuilder::Gradients g) {
      const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x));
      OpSpec gather;
      gather.kind = OpKind::copy;
      gather.reads = {*g[0], order};
      gather.writes = {dx};
      gather.bytes_read = b.size(dx) + b.size(order);
      b.op(std::move(gather));
      b.give(x, dx);
    });
    return y;
  }

  TapeBuilder& t_;
  const LayerContext& context_;
  const ModelConfig& c_;
  const ModelNames& names_;
  std::int64_t rows_ = 0;
  ValueIndex ids_ = 0;
  ValueIndex order_ = 0;
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
    const ValueIndex product = b.scratch("grad gate, unsummed", b.elements(shared), b.compute());
    b.elementwise({*g[0], shared}, {product});
    const ValueIndex dgate = b.make("grad " + b.name(gate), b.elements(gate));
    OpSpec sum;
    sum.kind = OpKind::reduction;
    sum.reads = {product};
    sum.writes = {dgate};
    sum.flops = b.elements(shared);
    b.op(std::move(sum));
    const ValueIndex dx = b.make("grad " + b.name(shared), b.elements(shared));
    b.elementwise({*g[0], gate}, {dx});
    b.give(gate, dgate);
    b.give(shared, dx);
  });
  return y;
}

}  // namespace

ValueIndex mixture_of_experts(TapeBuilder& t, const LayerContext& context, ValueIndex x) {
  const ModelConfig& c = context.config;
  const ValueIndex routed =
      Routed(t, context).run(cast(t, x, t.compute(), "tokens in the compute dtype"));
  if (c.experts.shared == 0) return routed;
  const std::string path(names_of(c.family).shared_expert);
  ValueIndex shared = gated_mlp(t, context, x, path + ".gate_proj", path + ".up_proj",
                                path + ".down_proj", c.experts.shared);
  if (c.experts.shared_gate) shared = gated_shared(t, context, x, shared);
  return add(t, routed, shared, "mixture of experts");
}

}  // namespace foregather::plan
