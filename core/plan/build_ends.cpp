#include "core/plan/build_ends.h"

#include <algorithm>
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
  const ValueIndex y = t.make(name, times(t.elements(ids), width));
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

std::vector<ValueIndex> rotary_tables(TapeBuilder& t, const LayerContext& context) {
  const std::int64_t size = context.positions * context.config.head_dim;
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
  if (t.compute() == DType::f32) return {cos, sin};
  return {cast(t, cos, t.compute(), "rotary cos"), cast(t, sin, t.compute(), "rotary sin")};
}

ValueIndex causal_lm_loss(TapeBuilder& t, const LayerContext& context, ValueIndex logits) {
  const std::int64_t n = context.tokens;
  // loss_utils.py: "Upcast to float if we need to compute the loss to avoid potential precision
  // issues". The caller's frame holds both copies until cross_entropy returns.
  const ValueIndex wide = cast(t, logits, DType::f32, "logits fp32");

  // labels = pad(labels, (0, 1)); shift_labels = labels[..., 1:].contiguous()
  const ValueIndex padded = t.make("labels, padded", n + context.sequences, DType::i64);
  OpSpec pad;
  pad.kind = OpKind::copy;
  pad.writes = {padded};
  pad.kernels = 2;
  t.op(std::move(pad));
  const ValueIndex labels = t.make("labels, shifted", n, DType::i64);
  OpSpec shift;
  shift.kind = OpKind::copy;
  shift.reads = {padded};
  shift.writes = {labels};
  t.op(std::move(shift));

  const ValueIndex log_probabilities = t.make("log probabilities", t.elements(logits), DType::f32);
  OpSpec log_softmax;
  log_softmax.kind = OpKind::cross_entropy;
  log_softmax.reads = {wide};
  log_softmax.writes = {log_probabilities};
  log_softmax.flops = times(5, t.elements(logits));
  t.op(std::move(log_softmax));
  t.node({log_probabilities}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    const ValueIndex dx = b.make("grad logits fp32", b.elements(wide), DType::f32);
    OpSpec spec;
    spec.kind = OpKind::cross_entropy;
    spec.reads = {*g[0], log_probabilities};
    spec.writes = {dx};
    spec.flops = times(4, b.elements(wide));
    b.op(std::move(spec));
    b.give(wide, dx);
  });

  const ValueIndex loss = t.make("loss", 1, DType::f32);
  const ValueIndex weight = t.make("loss total weight", 1, DType::f32);
  OpSpec nll;
  nll.kind = OpKind::cross_entropy;
  nll.reads = {log_probabilities, labels};
  nll.writes = {loss, weight};
  nll.holds = {logits, wide, padded};
  nll.bytes_read = n * (size_of(DType::f32) + size_of(DType::i64));
  t.op(std::move(nll));
  t.node({loss}, [=](TapeBuilder& b, TapeBuilder::Gradients g) {
    // Zeros of all logits, then one entry a token.
    const ValueIndex dx =
        b.make("grad log probabilities", b.elements(log_probabilities), DType::f32);
    OpSpec spec;
    spec.kind = OpKind::cross_entropy;
    spec.reads = {*g[0], log_probabilities, labels, weight};
    spec.writes = {dx};
    spec.bytes_read = n * size_of(DType::i64);
    spec.bytes_written = b.size(dx) + n * size_of(DType::f32);
    spec.kernels = 2;
    b.op(std::move(spec));
    b.give(log_probabilities, dx);
  });
  return loss;
}

}  // namespace foregather::plan
