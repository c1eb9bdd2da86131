#include "core/plan/build_ends.h"

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

// embedding_dense_backward of torch/_decomp/decompositions.py: rows are added in fp32, in place.
void compiled_embedding_backward(TapeBuilder& b, ValueIndex ids, ValueIndex weight, ValueIndex dy) {
  const bool is_wide = b.dtype(weight) == DType::f32;
  const ValueIndex sum = is_wide ? b.gradient_of(weight)
                                 : b.scratch("sum of the rows", b.elements(weight), DType::f32);
  fill(b, sum);
  OpSpec spread;
  spread.kind = OpKind::embedding;
  spread.reads = {dy, ids};
  spread.updates = {sum};
  spread.flops = b.elements(dy);
  const Bytes added = times(b.elements(dy), size_of(DType::f32));
  spread.bytes_read = b.size(dy) + added;
  spread.bytes_written = added;
  b.op(std::move(spread));
  if (is_wide) return;
  OpSpec cast;
  cast.kind = OpKind::cast;
  cast.reads = {sum};
  cast.writes = {b.gradient_of(weight)};
  b.op(std::move(cast));
}

// embedding_dense_backward_cuda. Left out: cub's own scratch of the sort, some 16 bytes an id.
void embedding_backward(TapeBuilder& b, ValueIndex ids, ValueIndex weight, ValueIndex dy) {
  if (b.train().compile == Compile::full) return compiled_embedding_backward(b, ids, weight, dy);
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
  const std::int64_t size = context.positions * table_width(context.config);
  if (context.config.rotary == ModelConfig::Rotary::complex) {
    // Llama4TextRotaryEmbedding.forward: positions · frequencies, polar(), times the scaling.
    const ValueIndex table = t.make("rotary table", size, DType::f32);
    OpSpec make;
    make.writes = {table, t.scratch("rotary half angles", size / 2, DType::f32),
                   t.scratch("rotary table, unscaled", size, DType::f32)};
    make.flops = 10 * size;
    make.kernels = 5;
    make.host_ops = 5;
    t.op(std::move(make));
    return {table};
  }
  if (turns_complex(context)) {
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
  if (t.compute() == DType::f32 || has_wide_tables(context.config)) return {cos, sin};
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

}  // namespace foregather::plan
