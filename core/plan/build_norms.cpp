// Norms, fused and as chains of operators.
#include <optional>
#include <utility>

#include "core/plan/build_layers.h"

namespace foregather::plan {

namespace {

/// What a norm multiplies with and adds.
struct Affine {
  std::optional<ValueIndex> weight, bias;
  std::optional<ValueIndex> read;  ///< the weight as the kernels read it; none: as it is

  std::optional<ValueIndex> factor() const { return read ? read : weight; }
};

// One kernel for dx, one that reads dy and x again for what is trained of weight and bias.
void norm_backward(TapeBuilder& b, ValueIndex dy, ValueIndex x,
                   const std::vector<ValueIndex>& statistics, const Affine& affine,
                   std::int64_t flops) {
  const auto trained = [&b](std::optional<ValueIndex> parameter) {
    return parameter && b.needs_gradient(*parameter);
  };
  OpSpec spec;
  spec.kind = OpKind::norm;
  spec.reads = {dy, x};
  spec.reads.insert(spec.reads.end(), statistics.begin(), statistics.end());
  if (affine.factor()) spec.reads.push_back(*affine.factor());
  Bytes once = b.size(dy) + b.size(x);
  for (const ValueIndex statistic : statistics) once += b.size(statistic);
  spec.flops = times(flops, b.elements(x));
  spec.kernels = 0;
  spec.bytes_read = 0;
  std::optional<ValueIndex> dx;
  if (b.needs_gradient(x)) {
    dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    spec.writes.push_back(*dx);
    spec.kernels += 1;
    *spec.bytes_read += once + (affine.factor() ? b.size(*affine.factor()) : 0);
  }
  if (trained(affine.weight) || trained(affine.bias)) {
    for (const std::optional<ValueIndex>& parameter : {affine.weight, affine.bias})
      if (trained(parameter)) spec.writes.push_back(b.gradient_of(*parameter));
    spec.kernels += 1;
    *spec.bytes_read += once;
  }
  b.op(std::move(spec));
  if (dx) b.give(x, *dx);
}

// torch.nn.RMSNorm: aten::_fused_rms_norm on CUDA since PyTorch 2.9.
ValueIndex fused_rms_norm(TapeBuilder& t, ValueIndex x, ValueIndex weight, std::int64_t rows,
                          const std::string& name) {
  const ValueIndex y = t.make(name, t.elements(x), t.dtype(x));
  const ValueIndex rstd = t.make(name + " rstd", rows, DType::f32);
  OpSpec forward;
  forward.kind = OpKind::norm;
  forward.reads = {x, weight};
  forward.writes = {y, rstd};
  forward.flops = times(4, t.elements(x));
  t.op(std::move(forward));
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    norm_backward(b, *g[0], x, {rstd}, {weight, {}, {}}, 10);
  });
  return y;
}

// The mean of each fp32 row.
ValueIndex row_mean(TapeBuilder& t, ValueIndex x, std::int64_t rows, const std::string& name) {
  const ValueIndex mean = t.make(name, rows, DType::f32);
  OpSpec spec;
  spec.kind = OpKind::reduction;
  spec.reads = {x};
  spec.writes = {mean};
  spec.flops = t.elements(x);
  t.op(std::move(spec));
  t.node({mean}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    // MeanBackward: grad.expand(x) / width, a new tensor of x's shape.
    const ValueIndex spread = b.make("grad " + b.name(x), b.elements(x), DType::f32);
    b.elementwise({*g[0]}, {spread});
    b.give(x, spread);
  });
  return mean;
}

// mean(x²) + eps → rsqrt, of fp32 rows; the value is the reciprocal root of each row.
ValueIndex row_rstd(TapeBuilder& t, ValueIndex x, std::int64_t rows, const std::string& name) {
  const ValueIndex squares = power(t, x, name + " squares");
  const ValueIndex mean = row_mean(t, squares, rows, name + " mean");
  const ValueIndex shifted = t.make(name + " mean + eps", rows, DType::f32);
  t.elementwise({mean}, {shifted});
  t.node({shifted}, [mean](TapeBuilder& b, TapeBuilder::Gradients g) { b.give(mean, *g[0]); });
  const ValueIndex rstd = t.make(name + " rstd", rows, DType::f32);
  t.elementwise({shifted}, {rstd}, 2);
  t.node({rstd}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    // RsqrtBackward: -0.5 · grad · rstd³, three small kernels.
    const ValueIndex cube = b.scratch("rstd cubed", rows, DType::f32);
    b.elementwise({rstd}, {cube}, 2);
    const ValueIndex half = b.scratch("half gradient", rows, DType::f32);
    b.elementwise({*g[0]}, {half});
    const ValueIndex dx = b.make("grad " + b.name(shifted), rows, DType::f32);
    b.elementwise({half, cube}, {dx});
    b.give(shifted, dx);
  });
  return rstd;
}

// Each fp32 row times its reciprocal root.
ValueIndex times_row(TapeBuilder& t, ValueIndex x, ValueIndex rstd, const std::string& name) {
  const std::int64_t rows = t.elements(rstd);
  const ValueIndex normal = t.make(name, t.elements(x), DType::f32);
  t.elementwise({x, rstd}, {normal});
  t.node({normal}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    // The gradient of the broadcast rstd is a product of x's shape before it is summed.
    const ValueIndex product = b.scratch("grad rstd, unsummed", b.elements(x), DType::f32);
    b.elementwise({*g[0], x}, {product});
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), DType::f32);
    b.elementwise({*g[0], rstd}, {dx});
    const ValueIndex drstd = b.make("grad " + b.name(rstd), rows, DType::f32);
    OpSpec sum;
    sum.kind = OpKind::reduction;
    sum.reads = {product};
    sum.writes = {drstd};
    sum.flops = b.elements(x);
    b.op(std::move(sum));
    b.give(x, dx);
    b.give(rstd, drstd);
  });
  return normal;
}

// x in fp32 times the reciprocal root mean square of its rows.
ValueIndex normalized(TapeBuilder& t, ValueIndex x, std::int64_t rows, const std::string& name) {
  const ValueIndex wide = cast(t, x, DType::f32, name + " fp32");
  const ValueIndex rstd = row_rstd(t, wide, rows, name);
  return times_row(t, wide, rstd, name + " normalized fp32");
}

// weight · x of one row; the gradient of the weight is summed over rows. `read`: the weight as the
// kernels read it.
ValueIndex times_weight(TapeBuilder& t, ValueIndex narrow, ValueIndex weight, ValueIndex read,
                        const std::string& name) {
  const ValueIndex y = t.make(name, t.elements(narrow), t.dtype(narrow));
  t.elementwise({read, narrow}, {y});
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const std::int64_t elements = b.elements(narrow);
    if (b.needs_gradient(narrow)) {
      const ValueIndex dx = b.make("grad " + b.name(narrow), elements, b.dtype(narrow));
      b.elementwise({*g[0], read}, {dx});
      b.give(narrow, dx);
    }
    if (!b.needs_gradient(weight)) return;
    const ValueIndex product = b.scratch("grad weight, unsummed", elements, b.dtype(narrow));
    b.elementwise({*g[0], narrow}, {product});
    column_sum(b, product, weight);
  });
  return y;
}

// transformers/models/llama/modeling_llama.py, LlamaRMSNorm.forward.
ValueIndex decomposed_rms_norm(TapeBuilder& t, ValueIndex x, ValueIndex weight, std::int64_t rows,
                               const std::string& name) {
  const ValueIndex normal = normalized(t, x, rows, name);
  const ValueIndex narrow = cast(t, normal, t.dtype(x), name + " normalized");
  return times_weight(t, narrow, weight, weight, name);
}

// transformers/models/gemma/modeling_gemma.py, GemmaRMSNorm.forward: x · (1 + weight) in fp32 (the
// few kernels over the weight alone are left out), and Olmo2RMSNorm.forward.
ValueIndex wide_rms_norm(TapeBuilder& t, ValueIndex x, ValueIndex weight, std::int64_t rows,
                         const std::string& name) {
  const ValueIndex normal = normalized(t, x, rows, name);
  const ValueIndex scaled = times_weight(t, normal, weight, weight, name + " fp32");
  return cast(t, scaled, t.dtype(x), name);
}

// x - mean(x) of each row; SubBackward sums its gradient for the mean.
ValueIndex centred(TapeBuilder& t, ValueIndex x, ValueIndex mean, const std::string& name) {
  const ValueIndex y = t.make(name, t.elements(x), DType::f32);
  t.elementwise({x, mean}, {y});
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex negative = b.scratch("grad mean, unsummed", b.elements(x), DType::f32);
    b.elementwise({*g[0]}, {negative});
    const ValueIndex sum = b.make("grad " + b.name(mean), b.elements(mean), DType::f32);
    OpSpec spec;
    spec.kind = OpKind::reduction;
    spec.reads = {negative};
    spec.writes = {sum};
    spec.flops = b.elements(x);
    b.op(std::move(spec));
    b.give(x, *g[0]);
    b.give(mean, sum);
  });
  return y;
}

// transformers/models/cohere/modeling_cohere.py, CohereLayerNorm.forward.
ValueIndex decomposed_layer_norm(TapeBuilder& t, ValueIndex x, ValueIndex weight,
                                 std::int64_t width, const std::string& name) {
  const std::int64_t rows = t.elements(x) / width;
  const ValueIndex wide = cast(t, x, DType::f32, name + " fp32");
  const ValueIndex mean = row_mean(t, wide, rows, name + " mean");
  const ValueIndex deviations = centred(t, wide, mean, name + " deviations");
  const ValueIndex rstd = row_rstd(t, deviations, rows, name);
  const ValueIndex again = centred(t, wide, mean, name + " centred");
  const ValueIndex normal = times_row(t, again, rstd, name + " normalized fp32");
  ValueIndex read = weight;
  if (t.dtype(weight) != DType::f32) {
    read = t.make(t.name(weight) + " fp32", t.elements(weight), DType::f32);
    OpSpec widen;
    widen.kind = OpKind::cast;
    widen.reads = {weight};
    widen.writes = {read};
    t.op(std::move(widen));
  }
  const ValueIndex scaled = times_weight(t, normal, weight, read, name + " fp32, scaled");
  return cast(t, scaled, t.dtype(x), name);
}

}  // namespace

ValueIndex rms_norm(TapeBuilder& t, const Implementation& implementation, ValueIndex x,
                    const std::string& weight, std::int64_t width, const std::string& name) {
  const std::int64_t rows = t.elements(x) / width;
  const ValueIndex scale_of = t.parameter(weight);
  return implementation.fused_rms_norm ? fused_rms_norm(t, x, scale_of, rows, name)
                                       : decomposed_rms_norm(t, x, scale_of, rows, name);
}

ValueIndex bare_rms_norm(TapeBuilder& t, ValueIndex x, std::int64_t width,
                         const std::string& name) {
  return cast(t, normalized(t, x, t.elements(x) / width, name), t.dtype(x), name);
}

namespace {

// aten::native_layer_norm.
ValueIndex native_layer_norm(TapeBuilder& t, ValueIndex x, const Affine& affine, std::int64_t width,
                             const std::string& name) {
  const std::int64_t rows = t.elements(x) / width;
  const ValueIndex y = t.make(name, t.elements(x), t.dtype(x));
  const ValueIndex mean = t.make(name + " mean", rows, DType::f32);
  const ValueIndex rstd = t.make(name + " rstd", rows, DType::f32);
  OpSpec forward;
  forward.kind = OpKind::norm;
  forward.reads = {x};
  if (affine.factor()) forward.reads.push_back(*affine.factor());
  if (affine.bias) forward.reads.push_back(*affine.bias);
  forward.writes = {y, mean, rstd};
  forward.flops = times(6, t.elements(x));
  t.op(std::move(forward));
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    norm_backward(b, *g[0], x, {mean, rstd}, affine, 14);
  });
  return y;
}

Affine affine_of(const TapeBuilder& t, const std::string& module) {
  Affine affine{t.parameter(module + ".weight"), {}, {}};
  if (t.has_parameter(module + ".bias")) affine.bias = t.parameter(module + ".bias");
  return affine;
}

// transformers/models/olmo/modeling_olmo.py, OlmoLayerNorm.forward.
ValueIndex bare_layer_norm(TapeBuilder& t, ValueIndex x, std::int64_t width,
                           const std::string& name) {
  const ValueIndex wide = cast(t, x, DType::f32, name + " fp32");
  const ValueIndex normal = native_layer_norm(t, wide, {}, width, name + " normalized fp32");
  return cast(t, normal, t.dtype(x), name);
}

// transformers/models/nemotron/modeling_nemotron.py, NemotronLayerNorm1P.forward, which autocast
// narrows.
ValueIndex offset_layer_norm(TapeBuilder& t, ValueIndex x, const std::string& module,
                             std::int64_t width, const std::string& name) {
  Affine affine = affine_of(t, module);
  affine.read = t.make(t.name(*affine.weight) + " + 1", width);
  OpSpec shift;
  shift.reads = {*affine.weight};
  shift.writes = {*affine.read};
  shift.kernels = t.train().autocast ? 2 : 1;
  shift.flops = width;
  t.op(std::move(shift));
  return native_layer_norm(t, cast(t, x, t.compute(), name + " input, narrow"), affine, width,
                           name);
}

}  // namespace

ValueIndex layer_norm(TapeBuilder& t, ValueIndex x, const std::string& module, std::int64_t width,
                      const std::string& name) {
  return native_layer_norm(t, x, affine_of(t, module), width, name);
}

ValueIndex norm(TapeBuilder& t, const LayerContext& context, ValueIndex x,
                const std::string& module, std::int64_t width, const std::string& name) {
  switch (context.config.norm) {
    case ModelConfig::Norm::layer: return layer_norm(t, x, module, width, name);
    case ModelConfig::Norm::layer_bare: return bare_layer_norm(t, x, width, name);
    case ModelConfig::Norm::layer_offset: return offset_layer_norm(t, x, module, width, name);
    case ModelConfig::Norm::layer_wide:
      return decomposed_layer_norm(t, x, t.parameter(module + ".weight"), width, name);
    case ModelConfig::Norm::rms_wide:
      if (context.implementation.fused_rms_norm) break;
      [[fallthrough]];
    case ModelConfig::Norm::rms_offset:
      return wide_rms_norm(t, x, t.parameter(module + ".weight"), t.elements(x) / width, name);
    case ModelConfig::Norm::rms: break;
  }
  return rms_norm(t, context.implementation, x, module + ".weight", width, name);
}

}  // namespace foregather::plan
