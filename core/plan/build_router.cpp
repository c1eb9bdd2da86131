#include "core/plan/build_router.h"

#include <utility>

#include "core/plan/build_families.h"
#include "core/plan/model_names.h"

namespace foregather::plan {

namespace {

/// The routers of transformers 5.
class Router {
 public:
  Router(TapeBuilder& t, const LayerContext& context)
      : t_(t),
        c_(context.config),
        router_(c_.experts.router),
        tokens_(context.tokens),
        weights_(times(tokens_, c_.experts.active)),
        scores_(times(tokens_, c_.experts.count)) {}

  Choice run(ValueIndex x) {
    ValueIndex logits = product(x);
    if (router_.wide_choice) logits = cast(t_, logits, DType::f32, "router logits, fp32");
    if (router_.mixer) return {logits, mixed(logits), ids_};
    if (router_.of_all) return {logits, scores_of_all(logits), ids_};
    const ValueIndex weights =
        router_.of_chosen ? softmax_of(chosen(logits)) : weights_of(chosen(probabilities(logits)));
    return {logits, weights, ids_};
  }

 private:
  // modeling_phimoe.py, sparsemixer: two times a choice among the experts that are not masked, each
  // with a mask, probabilities, an index and the probability of what was drawn. PhimoeMultiplier
  // gives logits a gradient of its own; the ways through softmax get none.
  ValueIndex mixed(ValueIndex logits) {
    const DType type = t_.train().autocast ? DType::f32 : t_.compute();
    const ValueIndex weights = t_.make("routing weights", weights_, type);
    ids_ = t_.make("chosen experts", weights_, DType::i64);
    OpSpec mix;
    mix.kind = OpKind::other;
    mix.reads = {logits};
    mix.writes = {weights, ids_};
    std::vector<ValueIndex> saved;
    for (const std::string draw : {"first", "second"}) {
      saved.push_back(t_.make("masked experts, " + draw, scores_, DType::boolean));
      saved.push_back(t_.make("router probabilities, " + draw, scores_, type));
      saved.push_back(t_.make("chosen expert, " + draw, tokens_, DType::i64));
      saved.push_back(t_.make("its probability, " + draw, tokens_, type));
    }
    mix.writes.insert(mix.writes.end(), saved.begin(), saved.end());
    mix.kernels = 47;  // 44 operators, of which out-of-place fills and the scatter copy first
    mix.host_ops = 47;
    t_.op(std::move(mix));
    t_.node({weights}, [=, scores = scores_](TapeBuilder& b, TapeBuilder::Gradients g) {
      const ValueIndex dx = b.make("grad " + b.name(logits), scores, b.dtype(logits));
      OpSpec back;
      back.kind = OpKind::other;
      back.reads = saved;
      back.reads.push_back(*g[0]);
      back.writes = {dx, b.scratch("grad router logits, second", scores, b.dtype(logits))};
      back.kernels = 9;
      back.host_ops = 9;
      b.op(std::move(back));
      b.give(logits, dx);
    });
    return weights;
  }

  // modeling_llama4.py, Llama4Router.forward: the sigmoid of the largest, of -inf for the rest.
  ValueIndex scores_of_all(ValueIndex logits) {
    const ValueIndex top = chosen(logits);
    const DType type = t_.dtype(logits);
    const ValueIndex all = t_.make("router logits of the chosen", scores_, type);
    OpSpec spread;
    spread.kind = OpKind::copy;
    spread.reads = {top, ids_};
    spread.writes = {all};
    spread.kernels = 2;
    spread.host_ops = 2;
    t_.op(std::move(spread));
    t_.node({all}, [=, ids = ids_](TapeBuilder& b, TapeBuilder::Gradients g) {
      OpSpec gather;
      gather.kind = OpKind::copy;
      gather.reads = {*g[0], ids};
      gather.writes = {b.make("grad " + b.name(top), b.elements(top), type)};
      const ValueIndex dtop = gather.writes.front();
      b.op(std::move(gather));
      b.give(top, dtop);
    });
    const ValueIndex wide = cast(t_, all, DType::f32, "router logits of the chosen, fp32");
    return cast(t_, activation(t_, wide, "routing weights, fp32", 4, true), type,
                "routing weights of all");
  }

  ValueIndex softmax_of(ValueIndex top) {
    const ValueIndex y = activation(t_, top, "routing weights, normalized", 5, true);
    return router_.wide_choice ? cast(t_, y, t_.compute(), "routing weights, narrow") : y;
  }

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

  ValueIndex weights_of(ValueIndex top) {
    ValueIndex y = top;
    if (router_.sums_to_one) y = normalized(y);
    if (router_.scaled) y = scale(t_, y, "routing weights, scaled");
    return router_.narrow ? cast(t_, y, t_.compute(), "routing weights, narrow") : y;
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
  ValueIndex ids_ = 0;
};

}  // namespace

Choice chosen_experts(TapeBuilder& t, const LayerContext& context, ValueIndex x) {
  return Router(t, context).run(x);
}

}  // namespace foregather::plan
