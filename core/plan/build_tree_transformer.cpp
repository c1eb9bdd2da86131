#include <utility>

#include "core/plan/build_families.h"
#include "core/plan/build_tree.h"

namespace foregather::plan {

namespace {

/// Rows of a projection by part of an attention's packed weight.
struct Part {
  ValueIndex weight = 0, bias = 0;
  std::int64_t out = 0;
};

// x @ weightᵀ + bias, where both are parts of parameters: their gradients go to the whole's node.
ValueIndex project(TapeBuilder& t, ValueIndex x, const Part& part, std::int64_t in,
                   const std::string& name) {
  const std::int64_t rows = t.elements(x) / in;
  const ValueIndex y = t.make(name, times(rows, part.out));
  t.gemm({x, part.weight, part.bias}, y, 1, rows, part.out, in, 2);
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    if (b.needs_gradient(x)) {
      const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x));
      b.gemm({*g[0], part.weight}, dx, 1, rows, in, part.out);
      b.give(x, dx);
    }
    if (!b.needs_gradient(part.weight)) return;
    const ValueIndex dw = b.make("grad " + b.name(part.weight), b.elements(part.weight));
    b.weight_gemm({*g[0], x}, dw, 1, part.out, in, rows);
    const ValueIndex db = b.make("grad " + b.name(part.bias), b.elements(part.bias));
    OpSpec sum;
    sum.kind = OpKind::reduction;
    sum.reads = {*g[0]};
    sum.writes = {db};
    sum.holds = {dw};
    sum.flops = b.elements(*g[0]);
    b.op(std::move(sum));
    b.give(part.weight, dw);
    b.give(part.bias, db);
  });
  return y;
}

// parameter.split(): backward concatenates.
std::pair<ValueIndex, ValueIndex> parts_of(TapeBuilder& t, ValueIndex parameter,
                                           std::int64_t first) {
  const std::string& name = t.name(parameter);
  const ValueIndex a = t.view(name + ", query", parameter, first);
  const ValueIndex b = t.view(name + ", key and value", parameter, t.elements(parameter) - first);
  t.node({a, b}, [parameter](TapeBuilder& back, TapeBuilder::Gradients g) {
    OpSpec cat;
    cat.kind = OpKind::copy;
    for (const auto& gradient : g)
      if (gradient) cat.reads.push_back(*gradient);
    cat.writes = {back.gradient_of(parameter)};
    back.op(std::move(cat));
  });
  return {a, b};
}

/// Query, key and value by head: views.
struct Projected {
  ValueIndex query = 0, key = 0, value = 0;
};

// torch.nn.functional._in_projection_packed of one input: unflatten, transpose, contiguous, then
// one select a part.
Projected self_projection(TapeBuilder& t, const TransformerSpec& spec, const std::string& path,
                          ValueIndex x) {
  const LinearSpec packed{"query, key, value",
                          path + ".in_proj_weight",
                          path + ".in_proj_bias",
                          spec.width,
                          3 * spec.width,
                          false,
                          {}};
  const ValueIndex all = linear(t, x, packed);
  const ValueIndex apart = copy(t, all, "query, key, value, apart", true);
  const std::int64_t n = t.elements(x);
  return {slice(t, apart, n, "query"), slice(t, apart, n, "key"), slice(t, apart, n, "value")};
}

// The same where keys and values come from elsewhere.
Projected cross_projection(TapeBuilder& t, const TransformerSpec& spec, const std::string& path,
                           ValueIndex x, ValueIndex memory) {
  const std::int64_t d = spec.width;
  const auto [wq, wkv] = parts_of(t, t.parameter(path + ".in_proj_weight"), d * d);
  const auto [bq, bkv] = parts_of(t, t.parameter(path + ".in_proj_bias"), d);
  const ValueIndex query = project(t, x, {wq, bq, d}, d, "query");
  const ValueIndex both = project(t, memory, {wkv, bkv, 2 * d}, d, "key and value");
  const ValueIndex apart = copy(t, both, "key and value, apart", true);
  const std::int64_t n = t.elements(memory);
  return {query, slice(t, apart, n, "key"), slice(t, apart, n, "value")};
}

// scaled_dot_product_attention, flash or memory-efficient: dropout costs no mask, the random state
// is saved. (PyTorch falls back to separate operators where a head is narrower than the fused
// kernels' alignment; that is not followed.)
ValueIndex attend(TapeBuilder& t, const LayerContext& context, const TransformerSpec& spec,
                  const Projected& p) {
  const std::int64_t heads = times(context.sequences, spec.heads);
  const std::int64_t dim = spec.width / spec.heads;
  const std::int64_t queries = t.elements(p.query) / (context.sequences * spec.width);
  const std::int64_t keys = t.elements(p.key) / (context.sequences * spec.width);
  const auto attention = [=](std::int64_t matmuls) {
    OpSpec op;
    op.kind = OpKind::attention;
    op.flops = times(times(times(times(2 * matmuls, heads), queries), keys), dim);
    op.m = queries;
    op.n = keys;
    op.k = dim;
    op.batch = heads;
    return op;
  };
  const ValueIndex out = t.make("attention", t.elements(p.query));
  const ValueIndex logsumexp = t.make("attention logsumexp", times(heads, queries), DType::f32);
  const bool is_flash = context.implementation.flash_attention && t.compute() != DType::f32;
  const ValueIndex seed = t.make("attention seed", is_flash ? 2 : 1, DType::i64);
  const ValueIndex offset = t.make("attention offset", 1, DType::i64);
  OpSpec forward = attention(2);
  forward.reads = {p.query, p.key, p.value};
  forward.writes = {out, logsumexp, seed, offset};
  forward.keep_under_selective = true;
  forward.host_ops = 2;
  t.op(std::move(forward));
  t.node({out}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const auto like = [&b](ValueIndex x) { return b.make("grad " + b.name(x), b.elements(x)); };
    const ValueIndex dq = like(p.query);
    const ValueIndex dk = like(p.key);
    const ValueIndex dv = like(p.value);
    OpSpec spec_of = attention(5);
    spec_of.reads = {*g[0], p.query, p.key, p.value, out, logsumexp, seed, offset};
    spec_of.writes = {dq, dk, dv, b.scratch("delta", b.elements(logsumexp), DType::f32)};
    spec_of.kernels = 2;
    b.op(std::move(spec_of));
    b.give(p.query, dq);
    b.give(p.key, dk);
    b.give(p.value, dv);
  });
  // Back to [positions, sequences, width]: FlashAttention's output has the layout of its query,
  // which is that; memory-efficient attention's is [sequences, positions, heads, dim].
  return is_flash ? out : copy(t, out, "attention, in rows", false);
}

ValueIndex attention_part(TapeBuilder& t, const LayerContext& context, const TransformerSpec& spec,
                          const std::string& path, const Projected& projected) {
  const ValueIndex out = attend(t, context, spec, projected);
  const ValueIndex y =
      linear(t, out, linear_of(t, "attention out", path + ".out_proj", spec.width, spec.width));
  return dropout(t, y, context.dropout(spec.dropout));
}

// norm(x + part)
ValueIndex joined(TapeBuilder& t, const TransformerSpec& spec, ValueIndex x, ValueIndex part,
                  const std::string& norm) {
  const ValueIndex sum = add(t, x, part, "residual");
  return layer_norm(t, sum, norm, spec.width, "norm");
}

}  // namespace

void add_transformer_layer(TapeBuilder& t, const TransformerSpec& spec, const std::string& path,
                           bool is_decoder) {
  const std::int64_t d = spec.width;
  const auto pair = [&](const std::string& name, std::vector<std::int64_t> shape) {
    const std::int64_t rows = shape.front();
    t.add_parameter(path + "." + name + ".weight", std::move(shape));
    t.add_parameter(path + "." + name + ".bias", {rows});
  };
  const auto attention = [&](const std::string& name) {
    t.add_parameter(path + "." + name + ".in_proj_weight", {3 * d, d});
    t.add_parameter(path + "." + name + ".in_proj_bias", {3 * d});
    pair(name + ".out_proj", {d, d});
  };
  attention("self_attn");
  if (is_decoder) attention("multihead_attn");
  pair("linear1", {spec.feedforward, d});
  pair("linear2", {d, spec.feedforward});
  pair("norm1", {d});
  pair("norm2", {d});
  if (is_decoder) pair("norm3", {d});
}

ValueIndex transformer_layer(TapeBuilder& t, const LayerContext& context,
                             const TransformerSpec& spec, const std::string& path, ValueIndex x,
                             std::optional<ValueIndex> memory) {
  const std::string self = path + ".self_attn";
  t.enter(self);
  ValueIndex part = attention_part(t, context, spec, self, self_projection(t, spec, self, x));
  t.enter(path);
  x = joined(t, spec, x, part, path + ".norm1");
  if (memory) {
    const std::string cross = path + ".multihead_attn";
    t.enter(cross);
    part = attention_part(t, context, spec, cross, cross_projection(t, spec, cross, x, *memory));
    t.enter(path);
    x = joined(t, spec, x, part, path + ".norm2");
  }
  const ValueIndex up =
      linear(t, x, linear_of(t, "up", path + ".linear1", spec.width, spec.feedforward));
  const ValueIndex active =
      dropout(t, activation(t, up, "relu", 1, true), context.dropout(spec.dropout));
  const ValueIndex down =
      linear(t, active, linear_of(t, "down", path + ".linear2", spec.feedforward, spec.width));
  part = dropout(t, down, context.dropout(spec.dropout));
  return joined(t, spec, x, part, path + (memory ? ".norm3" : ".norm2"));
}

}  // namespace foregather::plan
