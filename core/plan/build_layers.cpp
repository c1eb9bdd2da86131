#include "core/plan/build_layers.h"

#include <utility>

namespace foregather::plan {

namespace {

// Host dispatches of a linear: the transpose and reshape views around the matmul.
constexpr float kLinearHostOps = 2;

void column_sum(TapeBuilder& t, ValueIndex gradient, ValueIndex bias,
                std::vector<ValueIndex> holds = {}) {
  OpSpec spec;
  spec.holds = std::move(holds);
  spec.kind = OpKind::reduction;
  spec.reads = {gradient};
  spec.writes = {t.gradient_of(bias)};
  spec.flops = t.elements(gradient);
  t.op(std::move(spec));
}

void copy_into(TapeBuilder& t, ValueIndex from, ValueIndex to, std::vector<ValueIndex> holds = {}) {
  OpSpec spec;
  spec.kind = OpKind::copy;
  spec.reads = {from};
  spec.writes = {to};
  spec.holds = std::move(holds);
  t.op(std::move(spec));
}

// a · b of one shape. MulBackward computes the gradient of `other` before that of `self`.
ValueIndex multiply(TapeBuilder& t, ValueIndex a, ValueIndex b, const std::string& name) {
  const ValueIndex y = t.make(name, t.elements(a), t.dtype(a));
  t.elementwise({a, b}, {y});
  t.node({y}, [a, b](TapeBuilder& back, TapeBuilder::Gradients g) {
    const ValueIndex db = back.make("grad " + back.name(b), back.elements(b), back.dtype(b));
    back.elementwise({*g[0], a}, {db});
    const ValueIndex da = back.make("grad " + back.name(a), back.elements(a), back.dtype(a));
    back.elementwise({*g[0], b}, {da});
    back.give(a, da);
    back.give(b, db);
  });
  return y;
}

// f(x) elementwise with a backward kernel that reads x or y.
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

// PowBackward: grad · (exponent · x^(exponent - 1)), one kernel an operator. In C++ the temporaries
// of the expression live until its end.
ValueIndex power(TapeBuilder& t, ValueIndex x, const std::string& name) {
  const ValueIndex y = t.make(name, t.elements(x), t.dtype(x));
  t.elementwise({x}, {y}, 2);
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
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    OpSpec spec;
    spec.kind = OpKind::norm;
    spec.reads = {*g[0], x, rstd, weight};
    spec.writes = {dx, b.gradient_of(weight)};
    spec.flops = times(10, b.elements(x));
    // One kernel for dx, one that reads dy and x again for the weight.
    spec.bytes_read = 2 * (b.size(*g[0]) + b.size(x) + b.size(rstd)) + b.size(weight);
    spec.kernels = 2;
    b.op(std::move(spec));
    b.give(x, dx);
  });
  return y;
}

// mean(x²) + eps → rsqrt, of fp32 rows; the value is the reciprocal root of each row.
ValueIndex row_rstd(TapeBuilder& t, ValueIndex x, std::int64_t rows, const std::string& name) {
  const ValueIndex squares = power(t, x, name + " squares");
  const ValueIndex mean = t.make(name + " mean", rows, DType::f32);
  OpSpec spec;
  spec.kind = OpKind::reduction;
  spec.reads = {squares};
  spec.writes = {mean};
  spec.flops = t.elements(x);
  t.op(std::move(spec));
  t.node({mean}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    // MeanBackward: grad.expand(x) / width, a new tensor of x's shape.
    const ValueIndex spread = b.make("grad " + b.name(squares), b.elements(x), DType::f32);
    b.elementwise({*g[0]}, {spread});
    b.give(squares, spread);
  });
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

// transformers/models/llama/modeling_llama.py, LlamaRMSNorm.forward.
ValueIndex decomposed_rms_norm(TapeBuilder& t, ValueIndex x, ValueIndex weight, std::int64_t rows,
                               const std::string& name) {
  const ValueIndex wide = cast(t, x, DType::f32, name + " fp32");
  const ValueIndex rstd = row_rstd(t, wide, rows, name);
  const ValueIndex normal = t.make(name + " normalized fp32", t.elements(x), DType::f32);
  t.elementwise({wide, rstd}, {normal});
  t.node({normal}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    // The gradient of the broadcast rstd is a product of x's shape before it is summed.
    const ValueIndex product = b.scratch("grad rstd, unsummed", b.elements(x), DType::f32);
    b.elementwise({*g[0], wide}, {product});
    const ValueIndex dx = b.make("grad " + b.name(wide), b.elements(x), DType::f32);
    b.elementwise({*g[0], rstd}, {dx});
    const ValueIndex drstd = b.make("grad " + b.name(rstd), rows, DType::f32);
    OpSpec sum;
    sum.kind = OpKind::reduction;
    sum.reads = {product};
    sum.writes = {drstd};
    sum.flops = b.elements(x);
    b.op(std::move(sum));
    b.give(wide, dx);
    b.give(rstd, drstd);
  });
  const ValueIndex narrow = cast(t, normal, t.dtype(x), name + " normalized");
  const ValueIndex y = t.make(name, t.elements(x), t.dtype(x));
  t.elementwise({weight, narrow}, {y});
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(narrow), b.elements(x), b.dtype(narrow));
    b.elementwise({*g[0], weight}, {dx});
    const ValueIndex product = b.scratch("grad weight, unsummed", b.elements(x), b.dtype(narrow));
    b.elementwise({*g[0], narrow}, {product});
    column_sum(b, product, weight);
    b.give(narrow, dx);
  });
  return y;
}

}  // namespace

ValueIndex linear(TapeBuilder& t, ValueIndex x, const LinearSpec& spec) {
  const std::int64_t rows = t.elements(x) / spec.in;
  const std::int64_t in = spec.in;
  const std::int64_t out = spec.out;
  const bool transposed = spec.transposed;
  const bool biased = !spec.bias.empty();
  const ValueIndex weight = t.parameter(spec.weight);
  const ValueIndex bias = biased ? t.parameter(spec.bias) : weight;
  const ValueIndex y = t.make(spec.name, times(rows, out));
  std::vector<ValueIndex> reads = {x, weight};
  if (biased) reads.push_back(bias);
  t.gemm(std::move(reads), y, 1, rows, out, in, kLinearHostOps, !biased && t.next_matmul_is_kept(),
         spec.holds);
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dy = *g[0];
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x));
    const auto input_gradient = [&] { b.gemm({dy, weight}, dx, 1, rows, in, out); };
    const auto weight_gradient = [&] {
      const ValueIndex dw = b.gradient_of(weight);
      if (transposed)
        b.gemm({x, dy}, dw, 1, in, out, rows);
      else
        b.gemm({dy, x}, dw, 1, out, in, rows);
      return dw;
    };
    // derivatives.yaml: MmBackward0 yields mat2 (the weight) first, AddmmBackward0 mat1, mat2,
    // bias. Gradients are accumulated when the node has ended, the bias's first: the weight's
    // passes a transpose (tests/oracles: the buckets of ddp/cap_1/gpt2_19m).
    if (biased) {
      input_gradient();
      column_sum(b, dy, bias, {weight_gradient()});
    } else {
      weight_gradient();
      input_gradient();
    }
    b.give(x, dx);
  });
  return y;
}

ValueIndex rms_norm(TapeBuilder& t, const Implementation& implementation, ValueIndex x,
                    const std::string& weight, std::int64_t width, const std::string& name) {
  const std::int64_t rows = t.elements(x) / width;
  const ValueIndex scale_of = t.parameter(weight);
  return implementation.fused_rms_norm ? fused_rms_norm(t, x, scale_of, rows, name)
                                       : decomposed_rms_norm(t, x, scale_of, rows, name);
}

ValueIndex layer_norm(TapeBuilder& t, ValueIndex x, const std::string& module, std::int64_t width,
                      const std::string& name) {
  const std::int64_t rows = t.elements(x) / width;
  const ValueIndex weight = t.parameter(module + ".weight");
  const ValueIndex bias = t.parameter(module + ".bias");
  const ValueIndex y = t.make(name, t.elements(x), t.dtype(x));
  const ValueIndex mean = t.make(name + " mean", rows, DType::f32);
  const ValueIndex rstd = t.make(name + " rstd", rows, DType::f32);
  OpSpec forward;
  forward.kind = OpKind::norm;
  forward.reads = {x, weight, bias};
  forward.writes = {y, mean, rstd};
  forward.flops = times(6, t.elements(x));
  t.op(std::move(forward));
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    OpSpec spec;
    spec.kind = OpKind::norm;
    spec.reads = {*g[0], x, mean, rstd, weight};
    spec.writes = {dx, b.gradient_of(weight), b.gradient_of(bias)};
    spec.flops = times(14, b.elements(x));
    // One kernel for dx, one that reads dy and x again for weight and bias.
    spec.bytes_read =
        2 * (b.size(*g[0]) + b.size(x) + b.size(mean) + b.size(rstd)) + b.size(weight);
    spec.kernels = 2;
    b.op(std::move(spec));
    b.give(x, dx);
  });
  return y;
}

ValueIndex add(TapeBuilder& t, ValueIndex a, ValueIndex b, const std::string& name,
               std::vector<ValueIndex> holds) {
  const ValueIndex y = t.make(name, t.elements(a), t.dtype(a));
  OpSpec spec;
  spec.reads = {a, b};
  spec.writes = {y};
  spec.holds = std::move(holds);
  spec.flops = t.elements(a);
  t.op(std::move(spec));
  t.node({y}, [a, b](TapeBuilder& back, TapeBuilder::Gradients g) {
    back.give(a, *g[0]);
    back.give(b, *g[0]);
  });
  return y;
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

ValueIndex swiglu(TapeBuilder& t, const ModelConfig& c, ValueIndex x) {
  const auto bias = [&](const char* name) {
    return c.mlp_bias ? std::string(name) : std::string();
  };
  const ValueIndex gate = linear(t, x,
                                 {"mlp gate",
                                  "mlp.gate_proj.weight",
                                  bias("mlp.gate_proj.bias"),
                                  c.hidden,
                                  c.intermediate,
                                  false,
                                  {}});
  const ValueIndex silu = activation(t, gate, "mlp silu(gate)", 4, false);
  const ValueIndex up = linear(t, x,
                               {"mlp up",
                                "mlp.up_proj.weight",
                                bias("mlp.up_proj.bias"),
                                c.hidden,
                                c.intermediate,
                                false,
                                {}});
  const ValueIndex product = multiply(t, silu, up, "mlp product");
  return linear(t, product,
                {"mlp out",
                 "mlp.down_proj.weight",
                 bias("mlp.down_proj.bias"),
                 c.intermediate,
                 c.hidden,
                 false,
                 {x}});
}

ValueIndex gelu(TapeBuilder& t, bool is_fused, ValueIndex x) {
  if (is_fused) return activation(t, x, "gelu", 10, false);
  // Python evaluates the factors from left to right; each temporary dies with its last use.
  const ValueIndex half = scale(t, x, "gelu x/2");
  const ValueIndex cube = power(t, x, "gelu x^3");
  const ValueIndex term = scale(t, cube, "gelu 0.044715 x^3");
  const ValueIndex sum = add(t, x, term, "gelu x + 0.044715 x^3");
  const ValueIndex inner = scale(t, sum, "gelu argument");
  const ValueIndex tanh = activation(t, inner, "gelu tanh", 8, true);
  const ValueIndex shifted = t.make("gelu 1 + tanh", t.elements(x), t.dtype(x));
  t.elementwise({tanh}, {shifted});
  t.node({shifted}, [tanh](TapeBuilder& b, TapeBuilder::Gradients g) { b.give(tanh, *g[0]); });
  return multiply(t, half, shifted, "gelu");
}

}  // namespace foregather::plan
