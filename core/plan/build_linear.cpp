#include <utility>

#include "core/plan/build_layers.h"
#include "core/plan/trainable.h"

namespace foregather::plan {

namespace {

// Host dispatches of a linear: the transpose and reshape views around the matmul.
constexpr float kLinearHostOps = 2;

// The scale of a tensor or of its rows, then the cast: torchao's tensor_to_amax, amax_to_scale,
// hp_tensor_and_scale_to_float8.
ValueIndex to_float8(TapeBuilder& t, ValueIndex x, std::int64_t rows, DType type) {
  const bool by_row = t.train().float8 == Float8::rowwise;
  const ValueIndex scale = t.scratch("scale of " + t.name(x), by_row ? rows : 1, DType::f32);
  OpSpec amax;
  amax.kind = OpKind::reduction;
  amax.reads = {x};
  amax.writes = {scale};
  amax.flops = t.elements(x);
  amax.host_ops = 4;
  t.op(std::move(amax));
  const ValueIndex narrow = t.scratch(t.name(x) + " float8", t.elements(x), type);
  OpSpec cast;
  cast.kind = OpKind::cast;
  cast.reads = {x, scale};
  cast.writes = {narrow};
  cast.flops = t.elements(x);
  t.op(std::move(cast));
  return narrow;
}

// _scaled_mm takes its first operand by rows and its second by columns: what lies otherwise is
// copied (torchao/float8/float8_ops.py, preprocess_addmm). Of rowwise scaling, each side is cast
// along its own axis instead.
ValueIndex turned(TapeBuilder& t, ValueIndex narrow) {
  const ValueIndex copy =
      t.scratch(t.name(narrow) + " turned", t.elements(narrow), t.dtype(narrow));
  OpSpec turn;
  turn.kind = OpKind::copy;
  turn.reads = {narrow};
  turn.writes = {copy};
  t.op(std::move(turn));
  return copy;
}

/// A linear without its adapter.
class Base {
 public:
  Base(TapeBuilder& t, ValueIndex x, const LinearSpec& spec)
      : x_(x),
        weight_(t.parameter(spec.weight)),
        in_(spec.in),
        out_(spec.out),
        rows_(t.elements(x) / spec.in),
        transposed_(spec.transposed) {
    if (!spec.bias.empty()) bias_ = t.parameter(spec.bias);
    const std::int64_t shape[] = {out_, in_};
    float8_ = t.is_block() && is_float8(t.train(), spec.weight, shape);
    gathered_ = t.dtype(weight_) == DType::f8e4m3;
  }

  ValueIndex forward(TapeBuilder& t, const LinearSpec& spec) const {
    const ValueIndex y = t.make(spec.name, times(rows_, out_));
    std::vector<ValueIndex> reads = {x_, weight_};
    if (float8_) reads = {to_float8(t, x_, rows_, DType::f8e4m3), narrow_weight(t)};
    if (bias_) reads.push_back(*bias_);
    const bool keep = !bias_ && t.next_matmul_is_kept();
    t.gemm(std::move(reads), y, 1, rows_, out_, in_, kLinearHostOps, keep, spec.holds, type());
    t.node({y},
           [base = *this](TapeBuilder& b, TapeBuilder::Gradients g) { base.backward(b, *g[0]); });
    return y;
  }

 private:
  std::optional<DType> type() const {
    return float8_ ? std::optional(DType::f8e4m3) : std::nullopt;
  }

  ValueIndex narrow_weight(TapeBuilder& t) const {
    return gathered_ ? weight_ : to_float8(t, weight_, out_, DType::f8e4m3);
  }

  ValueIndex input_gradient(TapeBuilder& b, ValueIndex dy) const {
    const ValueIndex dx = b.make("grad " + b.name(x_), b.elements(x_));
    const ValueIndex weight = float8_ ? across(b, narrow_weight(b)) : weight_;
    b.gemm({dy, weight}, dx, 1, rows_, in_, out_, 1, false, {}, type());
    return dx;
  }

  ValueIndex weight_gradient(TapeBuilder& b, ValueIndex dy) const {
    const ValueIndex dw = b.gradient_of(weight_);
    if (transposed_)
      b.gemm({x_, dy}, dw, 1, in_, out_, rows_);
    else
      b.gemm({dy, float8_ ? across(b, to_float8(b, x_, in_, DType::f8e4m3)) : x_}, dw, 1, out_, in_,
             rows_, 1, false, {}, type());
    return dw;
  }

  /// The gradient of the output as the weight's gradient reads it.
  ValueIndex gradient_across(TapeBuilder& b, ValueIndex dy, ValueIndex narrow) const {
    if (!float8_) return dy;
    return is_by_row(b) ? to_float8(b, dy, out_, gradient_type(b)) : turned(b, narrow);
  }

  ValueIndex across(TapeBuilder& b, ValueIndex narrow) const {
    return is_by_row(b) ? narrow : turned(b, narrow);
  }

  // derivatives.yaml: MmBackward0 yields mat2 (the weight) first, AddmmBackward0 mat1, mat2,
  // bias. Gradients are accumulated when the node has ended, the bias's first: the weight's
  // passes a transpose (tests/oracles: the buckets of ddp/cap_1/gpt2_19m).
  void backward(TapeBuilder& b, ValueIndex dy) const {
    const ValueIndex narrow = float8_ ? to_float8(b, dy, rows_, gradient_type(b)) : dy;
    const bool trains = b.needs_gradient(weight_);
    std::optional<ValueIndex> dx;
    if (bias_) {
      if (b.needs_gradient(x_)) dx = input_gradient(b, narrow);
      std::vector<ValueIndex> held;
      if (trains) held.push_back(weight_gradient(b, gradient_across(b, dy, narrow)));
      if (b.needs_gradient(*bias_)) column_sum(b, dy, *bias_, std::move(held));
    } else {
      if (trains) weight_gradient(b, gradient_across(b, dy, narrow));
      if (b.needs_gradient(x_)) dx = input_gradient(b, narrow);
    }
    if (dx) b.give(x_, *dx);
  }

  // Float8LinearConfig's recipes: e5m2 for gradients of tensorwise scaling, e4m3 for rowwise.
  static DType gradient_type(const TapeBuilder& b) {
    return is_by_row(b) ? DType::f8e4m3 : DType::f8e5m2;
  }

  static bool is_by_row(const TapeBuilder& b) { return b.train().float8 == Float8::rowwise; }

  ValueIndex x_, weight_;
  std::optional<ValueIndex> bias_;
  std::int64_t in_, out_, rows_;
  bool transposed_ = false;
  bool float8_ = false;
  bool gathered_ = false;  ///< the weight is float8 already
};

}  // namespace

namespace {

ValueIndex plain(TapeBuilder& t, ValueIndex x, const LinearSpec& spec) {
  const ValueIndex narrow = cast(t, x, t.compute(), "input of " + spec.name);
  return Base(t, narrow, spec).forward(t, spec);
}

}  // namespace

ValueIndex linear(TapeBuilder& t, ValueIndex x, const LinearSpec& spec) {
  const std::string path = module_of(spec.weight);
  if (!t.has_parameter(path + ".lora_A.weight")) return plain(t, x, spec);
  LinearSpec own = spec;
  own.holds = {};
  const ValueIndex base = plain(t, x, own);
  const Trainable& trainable = t.train().trainable;
  const ValueIndex dropped = dropout(t, x, trainable.dropout);
  const LinearSpec down = {
      spec.name + " lora A", path + ".lora_A.weight", "", spec.in, trainable.rank, false, {}};
  const LinearSpec up = {
      spec.name + " lora B", path + ".lora_B.weight", "", trainable.rank, spec.out, false, {}};
  const ValueIndex low = plain(t, dropped, down);
  const ValueIndex high = plain(t, low, up);
  const ValueIndex scaled = scale(t, high, spec.name + " lora, scaled");
  return add(t, base, scaled, spec.name, spec.holds);
}

}  // namespace foregather::plan
