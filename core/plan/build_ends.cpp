#include "core/plan/build_ends.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace foregather::plan {

namespace {

// Up to this many ids PyTorch sums rows with one kernel and no scratch memory.
constexpr std::int64_t kSmallEmbedding = 3072;

void fill(TapeBuilder& b, ValueIndex value) {
  OpSpec spec;
  spec.kind = OpKind::fill;
  spec.writes = {value};
  b.op(std::move(spec));
}

// embedding_dense_backward_cuda. Left out: cub's own scratch of the sort, some 16 bytes an id.
void embedding_backward(TapeBuilder& b, ValueIndex ids, ValueIndex weight, ValueIndex dy) {
  const std::int64_t n = b.elements(ids);
  OpSpec spread;
  spread.kind = OpKind::embedding;
  spread.reads = {dy, ids};
  spread.flops = b.elements(dy);
  if (n <= kSmallEmbedding) {
    const ValueIndex dw = b.gradient_of(weight);
    fill(b, dw);
    spread.writes = {dw};
    spread.bytes_written = b.size(dy);
    return b.op(std::move(spread));
  }
  const ValueIndex sorted = b.scratch("sorted ids", n, DType::i64);
  const ValueIndex order = b.scratch("order of ids", n, DType::i64);
  OpSpec sort;
  sort.kind = OpKind::other;
  sort.reads = {ids};
  sort.writes = {sorted, order, b.scratch("range of ids", n, DType::i64)};
  sort.kernels = 6;
  sort.host_ops = 3;
  b.op(std::move(sort));
  const ValueIndex dw = b.gradient_of(weight);
  fill(b, dw);
  spread.reads.push_back(sorted);
  spread.reads.push_back(order);
  spread.writes = {dw};
  for (const char* name :
       {"segment offsets", "partials a segment", "partial offsets", "partial segment offsets"})
    spread.writes.push_back(b.scratch(name, n, DType::i64));
  const ValueIndex partial = b.scratch("partial sums of rows", b.elements(dy), DType::f32);
  spread.writes.push_back(partial);
  spread.bytes_read = b.size(dy) + b.size(partial);
  spread.bytes_written = b.size(partial) + b.size(dy);
  spread.kernels = 7;
  spread.host_ops = 3;
  b.op(std::move(spread));
}

}  // namespace

ValueIndex embedding(TapeBuilder& t, ValueIndex ids, const std::string& weight, std::int64_t width,
                     const std::string& name) {
  const ValueIndex table = t.parameter(weight);
  const ValueIndex y = t.make(name, times(t.elements(ids), width), t.stream());
  OpSpec spec;
  spec.kind = OpKind::embedding;
  spec.reads = {ids, table};
  spec.writes = {y};
  spec.bytes_read = t.size(ids) + t.size(y);
  t.op(std::move(spec));
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    embedding_backward(b, ids, table, *g[0]);
  });
  return y;
}

ValueIndex add_positions(TapeBuilder& t, ValueIndex tokens, ValueIndex positions) {
  const ValueIndex y = t.make("embeddings", t.elements(tokens), t.dtype(tokens));
  t.elementwise({tokens, positions}, {y});
  t.node({y}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    b.give(tokens, *g[0]);
    if (b.elements(tokens) == b.elements(positions)) return b.give(positions, *g[0]);
    const ValueIndex sum =
        b.make("grad " + b.name(positions), b.elements(positions), b.dtype(positions));
    OpSpec spec;
    spec.kind = OpKind::reduction;
    spec.reads = {*g[0]};
    spec.writes = {sum};
    spec.flops = b.elements(tokens);
    b.op(std::move(spec));
    b.give(positions, sum);
  });
  return y;
}

std::vector<ValueIndex> rotary_tables(TapeBuilder& t, const LayerContext& context) {
  const std::int64_t size = context.positions * rotary_width(context.config);
  if (context.implementation.rotary == Implementation::Rotary::complex) {
    // A buffer of the model; here it lives from the first op to the last.
    const ValueIndex table = t.make("rotary table", size, DType::f32);
    fill(t, table);
    return {table};
  }
  // LlamaRotaryEmbedding.forward: positions · frequencies, both halves alike, cos and sin, each
  // times the attention scaling, then in the compute dtype.
  const ValueIndex angles = t.make("rotary angles", size, DType::f32);
  OpSpec spec;
  spec.writes = {angles, t.scratch("rotary half angles", size / 2, DType::f32)};
  spec.kernels = 3;
  spec.host_ops = 3;
  t.op(std::move(spec));
  const auto table = [&](const std::string& name) {
    const ValueIndex wide = t.make("rotary " + name + " fp32", size, DType::f32);
    OpSpec make;
    make.reads = {angles};
    make.writes = {wide, t.scratch("rotary " + name + " unscaled", size, DType::f32)};
    make.flops = 8 * size;
    make.kernels = 2;
    make.host_ops = 2;
    t.op(std::move(make));
    return wide;
  };
  const ValueIndex cos = table("cos");
  const ValueIndex sin = table("sin");
  const bool is_wide = context.config.rotary == ModelConfig::Rotary::wide_tables;
  if (t.compute() == DType::f32 || is_wide) return {cos, sin};
  return {cast(t, cos, t.compute(), "rotary cos"), cast(t, sin, t.compute(), "rotary sin")};
}

ValueIndex given(TapeBuilder& t, const std::string& name, std::int64_t elements, DType dtype) {
  const ValueIndex y = t.make(name, elements, dtype);
  OpSpec spec;
  spec.kind = OpKind::copy;
  spec.writes = {y};
  t.op(std::move(spec));
  return y;
}

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
  const bool is_held = context.train.held_outputs != HeldOutputs::none;
  if (form == Logits::narrow || (form == Logits::compute && in_parts)) {
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
  return {logits, {given(t, "labels", context.tokens, DType::i64), {}}, {logits}};
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
    const bool widens = context.train.logits != Logits::narrow;
    const ValueIndex read = widens ? cast(t, part, DType::f32, "part of logits, fp32") : part;
    const ValueIndex ids = t.view("part of labels", in.labels.labels, t.elements(part) / vocab);
    std::vector<ValueIndex> held = in.held;
    held.push_back(read);
    losses.push_back(cross_entropy(t, read, ids, std::move(held)));
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
  return cross_entropy(t, in.logits, in.labels.labels, std::move(in.held));
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

void add_to(TapeBuilder& b, ValueIndex sum, ValueIndex more) {
  OpSpec add;
  add.reads = {more};
  add.updates = {sum};
  add.flops = b.elements(sum);
  b.op(std::move(add));
}

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
    const bool trains = b.needs_gradient(weight);
    std::optional<ValueIndex> dw;
    std::optional<ValueIndex> dbias;
    std::optional<ValueIndex> dx;
    if (b.needs_gradient(hidden)) dx = b.make("grad " + b.name(hidden), b.elements(hidden));
    for (const LossChunk& part : parts) {
      const ValueIndex dy = part.logits_gradient(b, *g[0]);
      if (trains && !dw) {
        dw = b.gradient_of(weight);
        b.weight_gemm({dy, part.hidden}, *dw, 1, part.out, part.in, part.rows);
      } else if (trains) {
        const ValueIndex more = b.scratch("grad weight of a part", b.elements(weight), b.compute());
        b.weight_gemm({dy, part.hidden}, more, 1, part.out, part.in, part.rows);
        add_to(b, *dw, more);
      }
      if (bias && b.needs_gradient(*bias)) {
        const ValueIndex sum =
            dbias ? b.scratch("grad bias of a part", part.out, b.compute()) : b.gradient_of(*bias);
        OpSpec columns;
        columns.kind = OpKind::reduction;
        columns.reads = {dy};
        columns.writes = {sum};
        columns.flops = b.elements(dy);
        b.op(std::move(columns));
        if (dbias) add_to(b, *dbias, sum);
        if (!dbias) dbias = sum;
      }
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
