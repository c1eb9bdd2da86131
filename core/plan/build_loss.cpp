#include "core/plan/build_loss.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/plan/build_ends.h"

namespace foregather::plan {

namespace {

// labels = pad(labels, (0, 1)); shift_labels = labels[..., 1:].contiguous()
struct Labels {
  ValueIndex labels = 0;
  std::vector<ValueIndex> held;
};

Labels shifted_labels(TapeBuilder& t, std::int64_t tokens, std::int64_t sequences) {
  const ValueIndex padded = t.make("labels, padded", tokens + sequences, DType::i64);
  OpSpec pad;
  pad.kind = OpKind::copy;
  pad.writes = {padded};
  pad.kernels = 2;
  t.op(std::move(pad));
  const ValueIndex labels = t.make("labels, shifted", tokens, DType::i64);
  OpSpec shift;
  shift.kind = OpKind::copy;
  shift.reads = {padded};
  shift.writes = {labels};
  t.op(std::move(shift));
  return {labels, {padded}};
}

void log_softmax_op(TapeBuilder& t, ValueIndex x, ValueIndex y) {
  OpSpec spec;
  spec.kind = OpKind::cross_entropy;
  spec.reads = {x};
  spec.writes = {y};
  spec.flops = times(5, t.elements(x));
  t.op(std::move(spec));
}

void log_softmax_backward(TapeBuilder& b, ValueIndex dy, ValueIndex y, ValueIndex dx) {
  OpSpec spec;
  spec.kind = OpKind::cross_entropy;
  spec.reads = {dy, y};
  spec.writes = {dx};
  spec.flops = times(4, b.elements(y));
  b.op(std::move(spec));
}

// Zeros of all logits, then one entry a token.
void nll_backward(TapeBuilder& b, const std::vector<ValueIndex>& reads, std::int64_t tokens,
                  ValueIndex dx) {
  OpSpec spec;
  spec.kind = OpKind::cross_entropy;
  spec.reads = reads;
  spec.writes = {dx};
  spec.bytes_read = tokens * size_of(DType::i64);
  spec.bytes_written = b.size(dx) + tokens * size_of(b.dtype(dx));
  spec.kernels = 2;
  b.op(std::move(spec));
}

// SliceBackward: zeros of the whole, and the part copied in.
ValueIndex without_last(TapeBuilder& t, const LayerContext& context, ValueIndex x) {
  const std::int64_t row = t.elements(x) / context.tokens;
  const ValueIndex y =
      t.make(t.name(x) + ", shifted", times(context.tokens - context.sequences, row), t.dtype(x));
  OpSpec copy;
  copy.kind = OpKind::copy;
  copy.reads = {x};
  copy.writes = {y};
  copy.bytes_read = t.size(y);
  t.op(std::move(copy));
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    OpSpec spec;
    spec.kind = OpKind::copy;
    spec.reads = {*g[0]};
    spec.writes = {dx};
    spec.bytes_written = b.size(dx) + b.size(y);
    spec.kernels = 2;
    b.op(std::move(spec));
    b.give(x, dx);
  });
  return y;
}

/// What cross_entropy reads.
struct LossInput {
  ValueIndex logits = 0;
  Labels labels;
  std::vector<ValueIndex> held;  ///< by frames, until the loss is there
};

/// `in_parts`: the caller widens logits that the model returns as computed.
LossInput causal_input(TapeBuilder& t, const LayerContext& context, ValueIndex logits,
                       bool in_parts) {
  const Logits form = context.train.logits;
  const bool is_as_computed = form == Logits::narrow || form == Logits::fused;
  const bool is_held = context.train.held_outputs != HeldOutputs::none;
  if (is_as_computed || (form == Logits::compute && in_parts)) {
    if (is_held) t.return_beside_output({logits});
    return {logits, shifted_labels(t, context.tokens, context.sequences), {logits}};
  }
  // loss_utils.py: "Upcast to float if we need to compute the loss to avoid potential precision
  // issues". The caller's frame holds both copies until cross_entropy returns.
  const ValueIndex wide = cast(t, logits, DType::f32, "logits fp32");
  const ValueIndex returned = form == Logits::compute ? logits : wide;
  if (is_held) t.return_beside_output({returned});
  if (form != Logits::f32_shifted)
    return {wide, shifted_labels(t, context.tokens, context.sequences), {returned, wide}};
  const ValueIndex shifted = without_last(t, context, wide);
  const std::int64_t rows = context.tokens - context.sequences;
  return {shifted, {given(t, "labels, shifted", rows, DType::i64), {}}, {wide, shifted}};
}

LossInput masked_input(TapeBuilder& t, const LayerContext& context, ValueIndex logits) {
  if (context.train.held_outputs != HeldOutputs::none) t.return_beside_output({logits});
  // log_softmax and nll_loss run in fp32 under autocast (aten/src/ATen/autocast_mode.h).
  const ValueIndex wide =
      context.train.autocast ? cast(t, logits, DType::f32, "logits fp32") : logits;
  return {wide, {given(t, "labels", context.tokens, DType::i64), {}}, {logits, wide}};
}

// nll_loss(log_softmax(logits), ids); frames hold `held` until it returns.
ValueIndex cross_entropy(TapeBuilder& t, ValueIndex logits, ValueIndex ids,
                         std::vector<ValueIndex> held) {
  const std::int64_t n = t.elements(ids);
  const ValueIndex log_probabilities =
      t.make("log probabilities", t.elements(logits), t.dtype(logits));
  log_softmax_op(t, logits, log_probabilities);
  t.node({log_probabilities}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(logits), b.elements(logits), b.dtype(logits));
    log_softmax_backward(b, *g[0], log_probabilities, dx);
    b.give(logits, dx);
  });
  const ValueIndex loss = t.make("loss", 1, DType::f32);
  const ValueIndex weight = t.make("loss total weight", 1, DType::f32);
  OpSpec nll;
  nll.kind = OpKind::cross_entropy;
  nll.reads = {log_probabilities, ids};
  nll.writes = {loss, weight};
  nll.holds = std::move(held);
  nll.bytes_read = n * (size_of(t.dtype(logits)) + size_of(DType::i64));
  t.op(std::move(nll));
  t.node({loss}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx =
        b.make("grad log probabilities", b.elements(log_probabilities), b.dtype(log_probabilities));
    nll_backward(b, {*g[0], log_probabilities, ids, weight}, n, dx);
    b.give(log_probabilities, dx);
  });
  return loss;
}

// The mean over the tokens of one kernel's losses.
ValueIndex fused_cross_entropy(TapeBuilder& t, ValueIndex logits, ValueIndex ids,
                               std::vector<ValueIndex> held) {
  const std::int64_t n = t.elements(ids);
  const ValueIndex losses = t.make("losses of tokens", n, DType::f32);
  const ValueIndex sums = t.make("log of the exponentials' sums", n, DType::f32);
  OpSpec each;
  each.kind = OpKind::cross_entropy;
  each.reads = {logits, ids};
  each.writes = {losses, sums};
  each.holds = std::move(held);
  each.flops = times(5, t.elements(logits));
  t.op(std::move(each));
  t.node({losses}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(logits), b.elements(logits), b.dtype(logits));
    OpSpec spec;
    spec.kind = OpKind::cross_entropy;
    spec.reads = {*g[0], logits, sums, ids};
    spec.writes = {dx};
    spec.flops = times(4, b.elements(logits));
    b.op(std::move(spec));
    b.give(logits, dx);
  });
  const ValueIndex loss = t.make("loss", 1, DType::f32);
  OpSpec mean;
  mean.kind = OpKind::reduction;
  mean.reads = {losses, ids};
  mean.writes = {loss};
  mean.kernels = 4;  // their sum, over the number of tokens that are not ignored
  t.op(std::move(mean));
  t.node({loss}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad losses of tokens", n, DType::f32);
    b.elementwise({*g[0]}, {dx});
    b.give(losses, dx);
  });
  return loss;
}

// torchtitan's chunked_cross_entropy_loss (torchtitan/components/loss.py, March 2025).
ValueIndex loss_in_parts(TapeBuilder& t, const LayerContext& context, ValueIndex logits) {
  const std::int64_t vocab = t.elements(logits) / context.tokens;
  const LossInput in = causal_input(t, context, logits, true);
  const std::int64_t n = t.elements(in.labels.labels);
  const std::int64_t parts = std::clamp<std::int64_t>(n, 1, context.train.logits_chunks);
  std::vector<std::pair<std::string, std::int64_t>> pieces;
  for (std::int64_t i = 0; i < parts; ++i)
    pieces.emplace_back("part of logits", (n / parts + (i < n % parts ? 1 : 0)) * vocab);
  std::vector<ValueIndex> losses;
  for (const ValueIndex part : split(t, in.logits, pieces)) {
    const bool is_fused = context.train.logits == Logits::fused;
    const bool widens = context.train.logits != Logits::narrow && !is_fused;
    const ValueIndex read = widens ? cast(t, part, DType::f32, "part of logits, fp32") : part;
    const ValueIndex ids = t.view("part of labels", in.labels.labels, t.elements(part) / vocab);
    std::vector<ValueIndex> held = in.held;
    held.push_back(read);
    losses.push_back(
        (is_fused ? fused_cross_entropy : cross_entropy)(t, read, ids, std::move(held)));
  }
  const ValueIndex loss = t.make("mean loss", 1, DType::f32);
  t.elementwise(losses, {loss});
  t.node({loss}, [losses](TapeBuilder& b, TapeBuilder::Gradients g) {
    for (const ValueIndex part : losses) b.give(part, *g[0]);
  });
  return loss;
}

}  // namespace

ValueIndex token_loss(TapeBuilder& t, const LayerContext& context, ValueIndex logits) {
  if (context.config.causal && context.train.logits_chunks > 1)
    return loss_in_parts(t, context, logits);
  LossInput in = context.config.causal ? causal_input(t, context, logits, false)
                                       : masked_input(t, context, logits);
  in.held.insert(in.held.end(), in.labels.held.begin(), in.labels.held.end());
  const bool is_fused = context.config.causal && context.train.logits == Logits::fused;
  return (is_fused ? fused_cross_entropy : cross_entropy)(t, in.logits, in.labels.labels,
                                                          std::move(in.held));
}

namespace {

/// One part of the tokens of chunked_loss().
struct LossChunk {
  ValueIndex hidden = 0;  ///< a view
  ValueIndex weight = 0;
  std::optional<ValueIndex> bias;
  ValueIndex labels = 0;
  std::int64_t rows = 0, in = 0, out = 0;
  bool is_scaled = false;   ///< the logits, by a number
  DType read = DType::f32;  ///< of the logits, by the loss

  /// The logits, widened to what the loss reads, as log probabilities; all else is dead.
  ValueIndex log_probabilities(TapeBuilder& t) const {
    ValueIndex logits = t.scratch("logits of a part", times(rows, out), t.compute());
    std::vector<ValueIndex> reads = {hidden, weight};
    if (bias) reads.push_back(*bias);
    t.gemm(std::move(reads), logits, 1, rows, out, in, 2);
    if (is_scaled) logits = scaled(t, logits, "logits of a part, scaled");
    ValueIndex wide = logits;
    if (t.compute() != read) {
      wide = t.scratch("logits of a part, fp32", times(rows, out), read);
      OpSpec cast;
      cast.kind = OpKind::cast;
      cast.reads = {logits};
      cast.writes = {wide};
      t.op(std::move(cast));
    }
    const ValueIndex y = t.scratch("log probabilities of a part", times(rows, out), read);
    log_softmax_op(t, wide, y);
    return y;
  }

  void forward(TapeBuilder& t, ValueIndex loss) const {
    OpSpec nll;
    nll.kind = OpKind::cross_entropy;
    nll.reads = {log_probabilities(t), labels};
    nll.writes = {loss};
    nll.bytes_read = rows * (size_of(read) + size_of(DType::i64));
    t.op(std::move(nll));
  }

  /// The gradient of the logits, in the compute dtype.
  ValueIndex logits_gradient(TapeBuilder& b, ValueIndex dloss) const {
    const ValueIndex y = log_probabilities(b);
    const ValueIndex dy = b.scratch("grad log probabilities", b.elements(y), read);
    nll_backward(b, {dloss, y, labels}, rows, dy);
    const ValueIndex wide = b.scratch("grad logits fp32", b.elements(y), read);
    log_softmax_backward(b, dy, y, wide);
    ValueIndex dx = wide;
    if (b.compute() != read) {
      dx = b.scratch("grad logits", b.elements(y), b.compute());
      OpSpec cast;
      cast.kind = OpKind::cast;
      cast.reads = {wide};
      cast.writes = {dx};
      b.op(std::move(cast));
    }
    return is_scaled ? scaled(b, dx, "grad logits, unscaled") : dx;
  }

 private:
  static ValueIndex scaled(TapeBuilder& t, ValueIndex x, const char* name) {
    const ValueIndex y = t.scratch(name, t.elements(x), t.dtype(x));
    t.elementwise({x}, {y});
    return y;
  }
};

/// The gradient of a parameter that each part has a share of. Autograd adds the second to the first
/// into a new tensor, as the first is a view of what its product made, and those after them in
/// place (torch/csrc/autograd/input_buffer.cpp; tests/oracles/record_gradients.py). A compiler's
/// graph adds in place from the first on.
class SharedGradient {
 public:
  SharedGradient(ValueIndex parameter, const char* name, std::size_t parts)
      : parameter_(parameter), name_(name), parts_(parts) {}

  /// `make(value)` computes the next share.
  template <class Make>
  void add(TapeBuilder& b, Make make) {
    if (!b.needs_gradient(parameter_)) return;
    if (arrived_++ == 0) {
      adds_in_place_ = parts_ == 1 || is_in_graph(b);
      sum_ = adds_in_place_ ? b.gradient_of(parameter_) : share(b);
      return make(sum_);
    }
    const ValueIndex more = share(b);
    make(more);
    if (!std::exchange(adds_in_place_, true)) {
      const ValueIndex first = std::exchange(sum_, b.gradient_of(parameter_));
      return b.elementwise({first, more}, {sum_});
    }
    OpSpec spec;
    spec.reads = {more};
    spec.updates = {sum_};
    spec.flops = b.elements(more);
    b.op(std::move(spec));
  }

 private:
  static bool is_in_graph(const TapeBuilder& b) {
    return b.train().compile != Compile::none && b.train().compile != Compile::per_block;
  }
  ValueIndex share(TapeBuilder& b) const {
    return b.scratch(name_, b.elements(parameter_), b.compute());
  }

  ValueIndex parameter_;
  const char* name_;
  std::size_t parts_;
  // State.
  std::size_t arrived_ = 0;
  bool adds_in_place_ = false;
  ValueIndex sum_ = 0;  ///< of what arrived
};

}  // namespace

ValueIndex chunked_loss(TapeBuilder& t, const LayerContext& context, ValueIndex hidden,
                        const LinearSpec& projection) {
  const std::int64_t n = context.tokens;
  const std::int64_t chunks = std::min(context.train.loss_chunks, n);
  const DType read = context.train.logits == Logits::narrow ? t.compute() : DType::f32;
  const ValueIndex weight = t.parameter(projection.weight);
  t.note_product(hidden, weight);
  const ValueIndex labels = shifted_labels(t, n, context.sequences).labels;
  const ValueIndex loss = t.make("loss", 1, DType::f32);
  std::optional<ValueIndex> bias;
  if (!projection.bias.empty()) bias = t.parameter(projection.bias);
  std::vector<LossChunk> parts;
  for (std::int64_t c = 0; c < chunks; ++c) {
    const std::int64_t rows = n / chunks + (c < n % chunks ? 1 : 0);
    const ValueIndex view = t.view("part of hidden states", hidden, rows * projection.in);
    parts.push_back({view, weight, bias, labels, rows, projection.in, projection.out,
                     context.config.scaled_logits, read});
    parts.back().forward(t, loss);
  }
  t.node({loss}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    std::optional<ValueIndex> dx;
    if (b.needs_gradient(hidden)) dx = b.make("grad " + b.name(hidden), b.elements(hidden));
    SharedGradient dw(weight, "grad weight of a part", parts.size());
    std::optional<SharedGradient> dbias;
    if (bias) dbias.emplace(*bias, "grad bias of a part", parts.size());
    for (const LossChunk& part : parts) {
      const ValueIndex dy = part.logits_gradient(b, *g[0]);
      dw.add(b, [&](ValueIndex share) {
        b.weight_gemm({dy, part.hidden}, share, 1, part.out, part.in, part.rows);
      });
      if (dbias) dbias->add(b, [&](ValueIndex share) { sum_columns(b, dy, share); });
      if (dx) {
        const ValueIndex view = b.view("grad of a part", *dx, b.elements(part.hidden));
        b.gemm({dy, weight}, view, 1, part.rows, part.in, part.out);
      }
    }
    if (dx) b.give(hidden, *dx);
  });
  return loss;
}

ValueIndex language_loss(TapeBuilder& t, const LayerContext& context, ValueIndex hidden,
                         const LinearSpec& projection) {
  if (context.train.loss_chunks > 1) return chunked_loss(t, context, hidden, projection);
  ValueIndex logits = linear(t, hidden, projection);
  if (context.config.scaled_logits) logits = scale(t, logits, "logits, scaled");
  if (context.config.capped_logits) logits = soft_capped(t, logits, "logits");
  t.enter(kLossScope);
  return token_loss(t, context, logits);
}

ValueIndex mean_loss(TapeBuilder& t, ValueIndex x) {
  const ValueIndex loss = t.make("loss", 1, DType::f32);
  OpSpec mean;
  mean.kind = OpKind::reduction;
  mean.reads = {x};
  mean.writes = {loss};
  mean.flops = t.elements(x);
  t.op(std::move(mean));
  t.node({loss}, [x](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad " + b.name(x), b.elements(x), b.dtype(x));
    b.elementwise({*g[0]}, {dx});
    b.give(x, dx);
  });
  return loss;
}

}  // namespace foregather::plan
