#include "toy_model.h"

#include <string>
#include <utility>

namespace foregather::test {

namespace {

using plan::Tape;
using plan::TapeOp;
using plan::ValueIndex;
using plan::ValueKind;

struct Builder {
  Tape tape;

  ValueIndex value(ValueKind kind, std::string name, std::int64_t elements,
                   DType type = DType::bf16) {
    plan::Value value;
    value.kind = kind;
    value.name = std::move(name);
    value.dtype = type;
    value.bytes = elements * size_of(type);
    tape.values.push_back(value);
    return static_cast<ValueIndex>(tape.values.size() - 1);
  }

  /// The parameter and its gradient.
  std::pair<ValueIndex, ValueIndex> parameter(std::string name, std::int64_t rows,
                                              std::int64_t columns, std::string tie = "") {
    plan::Parameter parameter;
    parameter.name = name;
    parameter.shape = {rows, columns};
    parameter.elements = rows * columns;
    parameter.tie = std::move(tie);
    tape.parameters.push_back(parameter);
    const auto index = static_cast<plan::ParameterIndex>(tape.parameters.size() - 1);
    const ValueIndex weight = value(ValueKind::parameter, name, rows * columns);
    const ValueIndex gradient = value(ValueKind::parameter_grad, "grad " + name, rows * columns);
    tape.values[weight].parameter = index;
    tape.values[gradient].parameter = index;
    return {weight, gradient};
  }

  TapeOp op(OpKind kind, std::vector<ValueIndex> reads, std::vector<ValueIndex> writes) {
    TapeOp op;
    op.cost.kind = kind;
    op.cost.dtype = DType::bf16;
    for (const ValueIndex v : reads) op.cost.bytes_read += tape.values[v].bytes;
    for (const ValueIndex v : writes) op.cost.bytes_written += tape.values[v].bytes;
    op.reads = std::move(reads);
    op.writes = std::move(writes);
    return op;
  }

  void forward(OpKind kind, std::vector<ValueIndex> reads, std::vector<ValueIndex> writes) {
    tape.forward.push_back(op(kind, std::move(reads), std::move(writes)));
  }
  void backward(OpKind kind, std::vector<ValueIndex> reads, std::vector<ValueIndex> writes) {
    tape.backward.push_back(op(kind, std::move(reads), std::move(writes)));
  }
};

Tape embedding(const ToyShape& shape) {
  Builder b;
  b.tape.scopes = {""};
  const auto [weight, gradient] =
      b.parameter("weight", shape.vocab, shape.hidden, shape.tied ? "embedding" : "");
  const std::int64_t n = shape.tokens * shape.hidden;
  const ValueIndex ids = b.value(ValueKind::input, "ids", shape.tokens, DType::i64);
  const ValueIndex x = b.value(ValueKind::output, "embedded", n);
  const ValueIndex dx = b.value(ValueKind::output_grad, "grad embedded", n);
  b.forward(OpKind::embedding, {ids, weight}, {x});
  b.backward(OpKind::embedding, {ids, dx}, {gradient});
  b.tape.input = ids;
  b.tape.output = x;
  b.tape.output_grad = dx;
  b.tape.has_input_grad = false;
  return b.tape;
}

Tape block(const ToyShape& shape) {
  Builder b;
  b.tape.scopes = {"", "up", "down"};
  const auto [up, d_up] = b.parameter("up.weight", shape.inner, shape.hidden);
  const auto [down, d_down] = b.parameter("down.weight", shape.hidden, shape.inner);
  const std::int64_t n = shape.tokens * shape.hidden;
  const std::int64_t wide = shape.tokens * shape.inner;
  const ValueIndex x = b.value(ValueKind::input, "x", n);
  const ValueIndex h = b.value(ValueKind::activation, "hidden", wide);
  const ValueIndex a = b.value(ValueKind::activation, "activated", wide);
  const ValueIndex s = b.value(ValueKind::temporary, "workspace", 256, DType::u8);
  const ValueIndex z = b.value(ValueKind::activation, "projected", n);
  const ValueIndex y = b.value(ValueKind::output, "y", n);
  b.forward(OpKind::gemm, {x, up}, {h});
  b.forward(OpKind::elementwise, {h}, {a});
  b.forward(OpKind::gemm, {a, down}, {s, z});
  b.forward(OpKind::elementwise, {x, z}, {y});
  b.tape.forward[0].keep_under_selective = true;
  const ValueIndex dy = b.value(ValueKind::output_grad, "grad y", n);
  const ValueIndex da = b.value(ValueKind::gradient, "grad activated", wide);
  const ValueIndex dh = b.value(ValueKind::gradient, "grad hidden", wide);
  const ValueIndex dx = b.value(ValueKind::input_grad, "grad x", n);
  b.backward(OpKind::gemm, {dy, a}, {d_down});
  b.backward(OpKind::gemm, {dy, down}, {da});
  b.backward(OpKind::elementwise, {da, h}, {dh});
  b.backward(OpKind::gemm, {dh, x}, {d_up});
  b.backward(OpKind::gemm, {dh, up}, {dx});
  b.backward(OpKind::elementwise, {dy}, {});
  b.tape.backward.back().updates = {dx};
  for (TapeOp& op : b.tape.forward) op.scope = 1;
  b.tape.input = x;
  b.tape.output = y;
  b.tape.output_grad = dy;
  b.tape.input_grad = dx;
  b.tape.model_flops = 6 * shape.tokens * 2 * shape.hidden * shape.inner;
  return b.tape;
}

Tape head(const ToyShape& shape) {
  Builder b;
  b.tape.scopes = {""};
  const auto [weight, gradient] =
      b.parameter("weight", shape.vocab, shape.hidden, shape.tied ? "embedding" : "");
  const std::int64_t n = shape.tokens * shape.hidden;
  const std::int64_t wide = shape.tokens * shape.vocab;
  const ValueIndex x = b.value(ValueKind::input, "x", n);
  const ValueIndex logits = b.value(ValueKind::activation, "logits", wide);
  const ValueIndex loss = b.value(ValueKind::output, "loss", 1, DType::f32);
  const ValueIndex one = b.value(ValueKind::output_grad, "grad loss", 1, DType::f32);
  const ValueIndex d_logits = b.value(ValueKind::gradient, "grad logits", wide);
  const ValueIndex dx = b.value(ValueKind::input_grad, "grad x", n);
  b.forward(OpKind::gemm, {x, weight}, {logits});
  b.forward(OpKind::cross_entropy, {logits}, {loss});
  b.backward(OpKind::cross_entropy, {logits, one}, {d_logits});
  b.backward(OpKind::gemm, {d_logits, x}, {gradient});
  b.backward(OpKind::gemm, {d_logits, weight}, {dx});
  b.tape.input = x;
  b.tape.output = loss;
  b.tape.output_grad = one;
  b.tape.input_grad = dx;
  return b.tape;
}

}  // namespace

plan::Model toy_model(const ToyShape& shape) {
  plan::Model model;
  model.name = "toy";
  model.tapes = {embedding(shape), block(shape), head(shape)};
  model.modules.push_back({"embed", 0, false});
  for (std::uint32_t i = 0; i < shape.layers; ++i)
    model.modules.push_back({"layers." + std::to_string(i), 1, true});
  model.modules.push_back({"head", 2, false});
  model.parameters = (shape.tied ? 1 : 2) * shape.vocab * shape.hidden +
                     2 * shape.layers * shape.hidden * shape.inner;
  model.tokens = shape.tokens;
  model.flops = shape.layers * model.tapes[1].model_flops;
  return model;
}

plan::Workload toy_workload(std::uint32_t world) {
  plan::Workload workload;
  workload.path = "toy.toml";
  workload.parallel.world_size = world;
  workload.parallel.shard_size = world;
  workload.cluster.nodes = (world + 7) / 8;
  workload.cluster.gpus_per_node = world < 8 ? world : 8;
  return workload;
}

}  // namespace foregather::test
