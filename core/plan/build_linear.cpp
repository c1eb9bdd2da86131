#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/plan/build_layers.h"
#include "core/plan/trainable.h"

namespace foregather::plan {

namespace {

// Host dispatches of a linear: the transpose and reshape views around the matmul.
constexpr float kLinearHostOps = 2;

// Double instructions that make a scale of a largest value: torchao divides doubles
// (float8_utils.py, amax_to_scale). ptxas makes of it a comparison, a multiplication, seven fused
// ones and two conversions. Inductor makes both scales anew for each value that they scale.
constexpr std::int64_t kScaleFlops = 11;

/// An operand in float8.
struct Narrow {
  ValueIndex value;
  std::optional<ValueIndex> scale;  ///< absent: of a weight that was gathered in float8
};

/// Which values of an operand share a scale: all, those of a row, or those of a column.
enum class Scaling : std::uint8_t { all, row, column };

bool is_compiled(const TapeBuilder& t) { return t.train().compile != Compile::none; }

OpSpec pass(OpKind kind, std::vector<ValueIndex> reads, ValueIndex written, std::int64_t flops) {
  OpSpec spec;
  spec.kind = kind;
  spec.reads = std::move(reads);
  spec.writes = {written};
  spec.flops = flops;
  return spec;
}

// torchao's tensor_to_amax and amax_to_scale. torchtitan's selective checkpointing keeps what
// aten.max yields, which is the largest of all values; that of a row is aten.amax's.
ValueIndex scale_of(TapeBuilder& t, ValueIndex x, Scaling scaling, std::int64_t scales) {
  const std::int64_t values = t.elements(x);
  ValueIndex read = x;
  if (!is_compiled(t)) {
    read = t.scratch("absolute values of " + t.name(x), values, t.dtype(x));
    OpSpec abs = pass(OpKind::elementwise, {x}, read, values);
    abs.keep_under_selective = t.train().keep_absolute_values;
    t.op(std::move(abs));
  }
  const ValueIndex scale =
      t.scratch("scale of " + t.name(x), scaling == Scaling::all ? 1 : scales, DType::f32);
  OpSpec amax = pass(OpKind::reduction, {read}, scale, values);
  amax.crosses_rows = scaling != Scaling::row;
  amax.keep_under_selective = scaling == Scaling::all;
  if (!is_compiled(t)) {
    // The scale itself takes four more kernels. torchao's float8 tensors dispatch in Python:
    // measured, 0.14 ms a conversion with its other ops (host_overhead.h).
    amax.kernels = 5;
    amax.host_ops = 16;
  }
  t.op(std::move(amax));
  return scale;
}

// The scales of a tensor, then the cast: hp_tensor_and_scale_to_float8, whose eager form
// (float8_training_tensor.py, _ToFloat8ConstrFunc; to_fp8_saturated) multiplies and clamps in fp32.
Narrow to_float8(TapeBuilder& t, ValueIndex x, Scaling scaling, std::int64_t scales, DType type) {
  const std::int64_t values = t.elements(x);
  const ValueIndex scale = scale_of(t, x, scaling, scales);
  const ValueIndex narrow = t.scratch(t.name(x) + " float8", values, type);
  if (is_compiled(t)) {
    t.op(pass(OpKind::cast, {x, scale}, narrow, values));
    return {narrow, scale};
  }
  const auto wide = [&](std::string_view what) {
    return t.scratch(t.name(x) + std::string(what), values, DType::f32);
  };
  const ValueIndex widened = wide(" in fp32");
  t.op(pass(OpKind::cast, {x}, widened, values));
  const ValueIndex scaled = wide(" scaled");
  t.op(pass(OpKind::elementwise, {widened, scale}, scaled, values));
  const ValueIndex clamped = wide(" clamped");
  t.op(pass(OpKind::elementwise, {scaled}, clamped, values));
  OpSpec cast = pass(OpKind::cast, {clamped}, narrow, values);
  cast.holds = {scaled};
  t.op(std::move(cast));
  return {narrow, scale};
}

// _scaled_mm takes its first operand by rows and its second by columns: what lies otherwise is
// copied (torchao/float8/float8_ops.py, preprocess_addmm). Of rowwise scaling, each side is cast
// along its own axis instead.
Narrow turned(TapeBuilder& t, const Narrow& narrow) {
  const ValueIndex copy =
      t.scratch(t.name(narrow.value) + " turned", t.elements(narrow.value), t.dtype(narrow.value));
  t.op(pass(OpKind::copy, {narrow.value}, copy, 0));
  return {copy, narrow.scale};
}

// For the backward.
ValueIndex kept_turned(TapeBuilder& t, ValueIndex narrow) {
  const ValueIndex copy = t.make(t.name(narrow) + " turned", t.elements(narrow), t.dtype(narrow));
  t.op(pass(OpKind::copy, {narrow}, copy, 0));
  return copy;
}

/// An operand in float8, as it lies and turned.
struct Both {
  ValueIndex narrow, turned;
};

// transformer_engine/pytorch/module/linear.py: scales come from the largest values of earlier
// steps, so one kernel (cast_transpose, of gradients cast_transpose_dbias) reads an operand once
// and writes it both ways, and the sum of its columns, which is the gradient of a bias.
Both cast_both_ways(TapeBuilder& t, ValueIndex x, DType type,
                    std::optional<ValueIndex> column_sum = {}) {
  const std::int64_t values = t.elements(x);
  const Both both{t.make(t.name(x) + " float8", values, type),
                  t.make(t.name(x) + " float8, turned", values, type)};
  OpSpec cast = pass(OpKind::cast, {x}, both.narrow, values);
  cast.writes.push_back(both.turned);
  if (column_sum) cast.writes.push_back(*column_sum);
  cast.is_opaque = true;  // to torch.compile
  t.op(std::move(cast));
  return both;
}

/// A linear without its adapter.
class Base {
 public:
  Base(TapeBuilder& t, ValueIndex x, const LinearSpec& spec)
      : x_(x),
        weight_(t.parameter(spec.weight)),
        read_(weight_),
        in_(spec.in),
        out_(spec.out),
        rows_(t.elements(x) / spec.in),
        transposed_(spec.transposed) {
    t.note_product(x_, weight_);
    if (!spec.bias.empty()) bias_ = t.parameter(spec.bias);
    const std::int64_t shape[] = {out_, in_};
    float8_ = t.is_block() && is_float8(t.train(), spec.weight, shape);
    gathered_ = t.dtype(weight_) == DType::f8e4m3;
    if (t.dtype(weight_) == DType::f32 && t.dtype(x_) != DType::f32) read_ = narrow_copy(t);
  }

  ValueIndex forward(TapeBuilder& t, const LinearSpec& spec) const {
    const ValueIndex y = t.make(spec.name, times(rows_, out_), t.dtype(x_));
    if (is_delayed(t)) return delayed_forward(t, y, spec);
    std::vector<ValueIndex> reads = {x_, read_};
    std::optional<ValueIndex> kept;
    if (float8_) {
      const Narrow x = to_float8(t, x_, along(t), rows_, DType::f8e4m3);
      const Narrow weight = narrow_weight(t, along(t), out_);
      reads = {x.value, weight.value};
      if (keeps_weight(t)) kept = kept_turned(t, weight.value);
    }
    if (bias_) reads.push_back(*bias_);
    const bool keep = !bias_ && t.next_matmul_is_kept();
    t.gemm(std::move(reads), y, 1, rows_, out_, in_, kLinearHostOps, keep, spec.holds, type(t));
    t.node({y}, [base = *this, kept](TapeBuilder& b, TapeBuilder::Gradients g) {
      base.backward(b, *g[0], kept);
    });
    return y;
  }

 private:
  // Of the products.
  DType type(const TapeBuilder& t) const { return float8_ ? DType::f8e4m3 : t.dtype(x_); }

  Narrow narrow_weight(TapeBuilder& t, Scaling scaling, std::int64_t scales) const {
    if (gathered_) return {weight_, {}};
    return to_float8(t, weight_, scaling, scales, DType::f8e4m3);
  }

  void input_gradient(TapeBuilder& b, ValueIndex dy) const {
    const ValueIndex dx = b.make("grad " + b.name(x_), b.elements(x_), b.dtype(x_));
    b.gemm({dy, read_}, dx, 1, rows_, in_, out_, 1, false, {}, b.dtype(x_));
    b.give(x_, dx);
  }

  // torch.autocast: of an fp32 weight, and of its gradient.
  ValueIndex narrow_copy(TapeBuilder& t) const {
    const ValueIndex copy = t.make(t.name(weight_) + " narrowed", t.elements(weight_), t.dtype(x_));
    t.op(pass(OpKind::cast, {weight_}, copy, 0));
    return copy;
  }

  ValueIndex weight_gradient(TapeBuilder& b, ValueIndex dy) const {
    const bool is_narrow = read_ != weight_;
    const ValueIndex dw =
        is_narrow ? b.scratch("grad " + b.name(read_), b.elements(read_), b.dtype(read_))
                  : b.gradient_of(weight_);
    if (transposed_)
      b.weight_gemm({x_, dy}, dw, 1, in_, out_, rows_, b.dtype(x_));
    else
      b.weight_gemm({dy, x_}, dw, 1, out_, in_, rows_, b.dtype(x_));
    if (!is_narrow) return dw;
    const ValueIndex wide = b.gradient_of(weight_);
    b.op(pass(OpKind::cast, {dw}, wide, 0));
    return wide;
  }

  // --- in float8, by Transformer Engine ---

  bool is_delayed(const TapeBuilder& t) const {
    return float8_ && t.train().float8 == Float8::delayed;
  }

  // What backward multiplies with is saved turned and in float8, nothing as it came.
  ValueIndex delayed_forward(TapeBuilder& t, ValueIndex y, const LinearSpec& spec) const {
    const Both x = cast_both_ways(t, x_, DType::f8e4m3);
    const Both weight = cast_both_ways(t, weight_, DType::f8e4m3);
    std::vector<ValueIndex> reads = {x.narrow, weight.narrow};
    if (bias_) reads.push_back(*bias_);
    const bool keep = !bias_ && t.next_matmul_is_kept();
    t.gemm(std::move(reads), y, 1, rows_, out_, in_, kLinearHostOps, keep, spec.holds, type(t));
    t.node({y}, [base = *this, x = x.turned, weight = weight.turned](TapeBuilder& b,
                                                                     TapeBuilder::Gradients g) {
      base.delayed_backward(b, *g[0], x, weight);
    });
    return y;
  }

  void delayed_backward(TapeBuilder& b, ValueIndex dy, ValueIndex x, ValueIndex weight) const {
    std::optional<ValueIndex> bias;
    if (bias_ && b.needs_gradient(*bias_)) bias = b.gradient_of(*bias_);
    const Both narrow = cast_both_ways(b, dy, DType::f8e5m2, bias);
    if (b.needs_gradient(x_)) {
      const ValueIndex dx = b.make("grad " + b.name(x_), b.elements(x_));
      b.gemm({narrow.narrow, weight}, dx, 1, rows_, in_, out_, 1, false, {}, type(b));
      b.give(x_, dx);
    }
    if (b.needs_gradient(weight_))
      b.weight_gemm({narrow.turned, x}, b.gradient_of(weight_), 1, out_, in_, rows_, type(b));
  }

  // --- in float8, by torchao ---

  bool keeps_weight(const TapeBuilder& t) const {
    return t.train().keep_float8_weights && !is_by_row(t) && is_inductors(t.train().compile) &&
           t.train().checkpointing == Checkpointing::none;
  }

  void narrow_input_gradient(TapeBuilder& b, const Narrow& dy,
                             std::optional<ValueIndex> kept) const {
    const std::string name = "grad " + b.name(x_);
    const Narrow weight = kept ? Narrow{*kept, {}} : across(b, narrow_weight(b, athwart(b), in_));
    const auto scale = product_of_scales(b, dy, weight, times(rows_, in_));
    const ValueIndex dx = b.make(scale ? name + ", not scaled" : name, b.elements(x_));
    b.gemm({dy.value, weight.value}, dx, 1, rows_, in_, out_, 1, false, {}, type(b));
    if (!scale) return b.give(x_, dx);
    const ValueIndex scaled = b.make(name, b.elements(x_));
    b.elementwise({dx, *scale}, {scaled});
    b.give(x_, scaled);
  }

  void narrow_weight_gradient(TapeBuilder& b, const Narrow& dy) const {
    const ValueIndex dw = b.gradient_of(weight_);
    const Narrow x = across(b, to_float8(b, x_, athwart(b), in_, DType::f8e4m3));
    const auto scale = product_of_scales(b, dy, x, times(out_, in_));
    b.weight_gemm({dy.value, x.value}, dw, 1, out_, in_, rows_, type(b));
    if (!scale) return;
    OpSpec multiply;
    multiply.reads = {*scale};
    multiply.updates = {dw};
    multiply.flops = times(out_, in_);
    b.op(std::move(multiply));
  }

  // Rows' scales and the slow accumulation of backward are too much for CUTLASS's kernel: cuBLAS
  // multiplies unscaled, and what comes is scaled afterwards (float8_ops.py,
  // addmm_float8_unwrapped, since torchao 0.7).
  std::optional<ValueIndex> product_of_scales(TapeBuilder& b, const Narrow& left,
                                              const Narrow& right, std::int64_t elements) const {
    if (!is_by_row(b)) return std::nullopt;
    const ValueIndex product = b.scratch(
        "scales of " + b.name(left.value) + ", " + b.name(right.value), elements, DType::f32);
    const bool in_doubles = is_inductors(b.train().compile);
    const std::int64_t flops = in_doubles ? times(2 * kScaleFlops, elements) : elements;
    OpSpec multiply = pass(OpKind::elementwise, {*left.scale, *right.scale}, product, flops);
    if (in_doubles) multiply.dtype = DType::f64;
    b.op(std::move(multiply));
    return product;
  }

  /// The gradient of the output as the weight's gradient reads it.
  Narrow gradient_across(TapeBuilder& b, ValueIndex dy, const Narrow& narrow) const {
    if (!is_by_row(b)) return turned(b, narrow);
    return to_float8(b, dy, Scaling::column, out_, gradient_type(b));
  }

  Narrow across(TapeBuilder& b, const Narrow& narrow) const {
    return is_by_row(b) ? narrow : turned(b, narrow);
  }

  // derivatives.yaml: MmBackward0 yields mat2 (the weight) first, AddmmBackward0 mat1, mat2,
  // bias. Gradients are accumulated when the node has ended, the bias's first: the weight's
  // passes a transpose (tests/oracles: the buckets of ddp/cap_1/gpt2_19m). Under autocast each
  // passes the cast of its copy, of which the bias's was made first (the order in which GCC
  // evaluates arguments) and so comes last.
  void backward(TapeBuilder& b, ValueIndex dy, std::optional<ValueIndex> kept) const {
    if (float8_) return narrow_backward(b, dy, kept);
    const bool trains = b.needs_gradient(weight_);
    if (bias_) {
      if (b.needs_gradient(x_)) input_gradient(b, dy);
      std::vector<ValueIndex> held;
      if (trains) {
        const ValueIndex gradient = weight_gradient(b, dy);
        if (!b.train().autocast) held.push_back(gradient);
      }
      if (b.needs_gradient(*bias_)) column_sum(b, dy, *bias_, std::move(held));
    } else {
      if (trains) weight_gradient(b, dy);
      if (b.needs_gradient(x_)) input_gradient(b, dy);
    }
  }

  // torchao/float8/float8_linear.py, matmul_with_hp_or_float8_args; the bias is added behind it.
  void narrow_backward(TapeBuilder& b, ValueIndex dy, std::optional<ValueIndex> kept) const {
    if (bias_ && b.needs_gradient(*bias_)) column_sum(b, dy, *bias_);
    const Narrow narrow = to_float8(b, dy, along(b), rows_, gradient_type(b));
    if (b.needs_gradient(x_)) narrow_input_gradient(b, narrow, kept);
    if (b.needs_gradient(weight_)) narrow_weight_gradient(b, gradient_across(b, dy, narrow));
  }

  // Float8LinearConfig's recipes: e5m2 for gradients of tensorwise scaling, e4m3 for rowwise.
  static DType gradient_type(const TapeBuilder& b) {
    return is_by_row(b) ? DType::f8e4m3 : DType::f8e5m2;
  }

  static bool is_by_row(const TapeBuilder& b) { return b.train().float8 == Float8::rowwise; }
  static Scaling along(const TapeBuilder& b) { return is_by_row(b) ? Scaling::row : Scaling::all; }
  static Scaling athwart(const TapeBuilder& b) {
    return is_by_row(b) ? Scaling::column : Scaling::all;
  }

  ValueIndex x_, weight_;
  ValueIndex read_;  ///< the weight as products read it
  std::optional<ValueIndex> bias_;
  std::int64_t in_, out_, rows_;
  bool transposed_ = false;
  bool float8_ = false;
  bool gathered_ = false;  ///< the weight is float8 already
};

}  // namespace

namespace {

ValueIndex plain(TapeBuilder& t, ValueIndex x, const LinearSpec& spec) {
  const DType weight = t.dtype(t.parameter(spec.weight));
  const bool is_wide = weight == DType::f32 && !t.train().trainable.autocasts_adapters;
  const DType type = is_wide ? weight : t.compute();
  return Base(t, cast(t, x, type, "input of " + spec.name), spec).forward(t, spec);
}

}  // namespace

ValueIndex linear(TapeBuilder& t, ValueIndex x, const LinearSpec& spec) {
  const std::string path = module_of(spec.weight);
  if (!t.has_parameter(path + ".lora_A.weight")) return plain(t, x, spec);
  LinearSpec own = spec;
  own.holds = {};
  const ValueIndex base = plain(t, x, own);
  const Trainable& trainable = t.train().trainable;
  const LinearSpec down = {
      spec.name + " lora A", path + ".lora_A.weight", "", spec.in, trainable.rank, false, {}};
  const DType type = trainable.wide_adapters ? DType::f32 : t.dtype(x);
  const ValueIndex dropped =
      dropout(t, cast(t, x, type, "input of " + down.name), trainable.dropout);
  const LinearSpec up = {
      spec.name + " lora B", path + ".lora_B.weight", "", trainable.rank, spec.out, false, {}};
  const ValueIndex low = plain(t, dropped, down);
  const ValueIndex high = plain(t, low, up);
  const ValueIndex scaled = scale(t, high, spec.name + " lora, scaled");
  const ValueIndex sum = add(t, base, scaled, spec.name, spec.holds);
  return cast(t, sum, t.dtype(base), spec.name + " narrowed");
}

}  // namespace foregather::plan
