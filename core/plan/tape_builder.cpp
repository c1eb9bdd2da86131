#include "core/plan/tape_builder.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "core/plan/checkpoint.h"
#include "core/plan/trainable.h"

namespace foregather::plan {

std::int64_t times(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > kMost ? kMost : product;
}

TapeBuilder::TapeBuilder(const Train& train, bool is_block, std::string path)
    : train_(train), is_block_(is_block), path_(std::move(path)) {
  tape_.scopes.emplace_back();
}

void TapeBuilder::enter(std::string_view scope) {
  const auto found = std::find(tape_.scopes.begin(), tape_.scopes.end(), scope);
  scope_ = static_cast<std::uint32_t>(found - tape_.scopes.begin());
  if (found == tape_.scopes.end()) tape_.scopes.emplace_back(scope);
}

// --- values ---

ValueIndex TapeBuilder::add_value(Value value, std::int64_t elements) {
  if (!value.is_view) value.bytes = times(elements, size_of(value.dtype));
  needs_.push_back(value.is_view && needs_[value.base]);
  tape_.values.push_back(std::move(value));
  elements_.push_back(elements);
  return static_cast<ValueIndex>(tape_.values.size() - 1);
}

void TapeBuilder::add_parameter(std::string name, std::vector<std::int64_t> shape, std::string tie,
                                bool transposed) {
  const Trainable& trainable = train_.trainable;
  const std::vector<std::int64_t> extents = shape;
  const bool is_whole = path_.empty() || path_.ends_with('.');  // as a block's
  const bool trained = is_trained(trainable, path_ + (is_whole ? "" : ".") + name, tie);
  push_parameter(name, std::move(shape), std::move(tie), trained);
  if (!is_block_ || extents.size() != 2 || !has_adapter(trainable, name)) return;
  const std::string path = module_of(name);
  push_adapter(path + ".lora_A.weight", {trainable.rank, extents[transposed ? 0 : 1]});
  push_adapter(path + ".lora_B.weight", {extents[transposed ? 1 : 0], trainable.rank});
}

void TapeBuilder::push_adapter(std::string name, std::vector<std::int64_t> shape) {
  push_parameter(std::move(name), std::move(shape), "", true);
  Value& value = tape_.values[parameter_values_.back()];
  if (!train_.trainable.wide_adapters) return;
  value.dtype = DType::f32;
  value.bytes = times(tape_.parameters.back().elements, size_of(DType::f32));
}

void TapeBuilder::add_parameters(const ParameterShapes& list, bool is_unused) {
  for (const ParameterShape& parameter : list) {
    const std::size_t first = tape_.parameters.size();
    add_parameter(parameter.name, parameter.shape, parameter.tie);
    for (std::size_t p = first; p < tape_.parameters.size(); ++p)
      if (is_unused || parameter.is_unused) leave_unused(p);
  }
}

void TapeBuilder::leave_unused(std::size_t parameter) {
  Parameter& unused = tape_.parameters[parameter];
  unused.is_unused = std::exchange(unused.trainable, false);
  needs_[parameter_values_[parameter]] = train_.trainable.frozen_get_gradients;
}

void TapeBuilder::push_parameter(std::string name, std::vector<std::int64_t> shape, std::string tie,
                                 bool trainable) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements = times(elements, extent);
  Value value;
  value.kind = ValueKind::parameter;
  value.name = name;
  const bool gathered_f8 = is_block_ && train_.float8_all_gather && is_float8(train_, name, shape);
  value.dtype = gathered_f8 ? DType::f8e4m3 : compute();
  value.parameter = static_cast<ParameterIndex>(tape_.parameters.size());
  tape_.parameters.push_back(
      {std::move(name), std::move(shape), elements, trainable, false, gathered_f8, std::move(tie)});
  parameter_values_.push_back(add_value(std::move(value), elements));
  needs_[parameter_values_.back()] = trainable || train_.trainable.frozen_get_gradients;
}

bool TapeBuilder::has_parameter(std::string_view name) const {
  return std::any_of(tape_.parameters.begin(), tape_.parameters.end(),
                     [&](const Parameter& parameter) { return parameter.name == name; });
}

ValueIndex TapeBuilder::parameter(std::string_view name) const {
  for (std::size_t p = 0; p < tape_.parameters.size(); ++p)
    if (tape_.parameters[p].name == name) return parameter_values_[p];
  assert(false && "no parameter of that name");
  return 0;
}

std::int64_t TapeBuilder::parameter_elements() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : tape_.parameters) count += parameter.elements;
  return count;
}

std::int64_t TapeBuilder::trained_elements() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : tape_.parameters)
    if (parameter.trainable) count += parameter.elements;
  return count;
}

std::int64_t TapeBuilder::forward_flops() const {
  std::int64_t count = 0;
  for (const TapeOp& op : tape_.forward)
    if (op.cost.kind == OpKind::gemm || op.cost.kind == OpKind::attention) count += op.cost.flops;
  return count;
}

ValueIndex TapeBuilder::input(std::string name, std::int64_t elements, DType dtype,
                              bool needs_gradient) {
  Value value;
  value.kind = ValueKind::input;
  value.name = std::move(name);
  value.dtype = dtype;
  tape_.input = add_value(std::move(value), elements);
  needs_[tape_.input] = needs_gradient;
  return tape_.input;
}

ValueIndex TapeBuilder::make(std::string name, std::int64_t elements, DType dtype) {
  Value value;
  value.kind = in_backward_ ? ValueKind::gradient : ValueKind::activation;
  value.name = std::move(name);
  value.dtype = dtype;
  return add_value(std::move(value), elements);
}

ValueIndex TapeBuilder::scratch(std::string name, std::int64_t elements, DType dtype) {
  Value value;
  value.kind = ValueKind::temporary;
  value.name = std::move(name);
  value.dtype = dtype;
  return add_value(std::move(value), elements);
}

ValueIndex TapeBuilder::view(std::string name, ValueIndex base, std::int64_t elements) {
  Value value = tape_.values[base];
  value.name = std::move(name);
  value.bytes = 0;
  value.is_view = true;
  value.base = base;
  return add_value(std::move(value), elements);
}

ValueIndex TapeBuilder::gradient_of(ValueIndex parameter) {
  assert(in_backward_ && tape_.values[parameter].kind == ValueKind::parameter && needs_[parameter]);
  Value value = tape_.values[parameter];
  value.kind = ValueKind::parameter_grad;
  value.name = "grad " + value.name;
  if (value.dtype == DType::f8e4m3) value.dtype = compute();
  return add_value(std::move(value), elements_[parameter]);
}

// --- ops ---

// PyTorch's elementwise kernels read and write vectors where operands and results are contiguous
// tensors of one shape; else they compute each element's place
// (aten/src/ATen/native/cuda/Loops.cuh). A cast into fp32 takes its elements one by one, too
// (LoadWithCast of MemoryAccess.cuh; those into 16 bits have kernels of their own, Copy.cu).
std::int64_t TapeBuilder::found_one_by_one(const OpSpec& spec) const {
  if (spec.kind == OpKind::cast && !spec.reads.empty() && !spec.writes.empty()) {
    const bool widens = dtype(spec.writes.front()) == DType::f32 &&
                        size_of(dtype(spec.reads.front())) < size_of(DType::f32);
    return widens ? elements(spec.writes.front()) : 0;
  }
  const bool is_copy = spec.kind == OpKind::copy && spec.batch == 0;
  if ((spec.kind != OpKind::elementwise && !is_copy) || spec.writes.empty()) return 0;
  const std::int64_t written = elements(spec.writes.front());
  const auto is_broadcast = [&](ValueIndex read) { return elements(read) != written; };
  if (!spec.is_strided && (is_copy || std::ranges::none_of(spec.reads, is_broadcast))) return 0;
  std::int64_t all = written;
  for (const ValueIndex read : spec.reads) all = std::max(all, elements(read));
  return all;
}

void TapeBuilder::op(OpSpec spec) {
  if (!in_backward_)
    for (const auto* list : {&spec.reads, &spec.updates})
      for (const ValueIndex value : *list) reads_need_ = reads_need_ || needs_[value];
  const auto sum = [this](const std::vector<ValueIndex>& values) {
    Bytes bytes = 0;
    for (const ValueIndex value : values) bytes += size(value);
    return bytes;
  };
  TapeOp op;
  op.cost.kind = spec.kind;
  op.cost.kernels = spec.kernels;
  op.cost.flops = spec.flops;
  op.cost.bytes_read = spec.bytes_read.value_or(sum(spec.reads) + sum(spec.updates));
  op.cost.bytes_written = spec.bytes_written.value_or(sum(spec.writes) + sum(spec.updates));
  op.cost.m = spec.m > 0 ? spec.m : found_one_by_one(spec);
  op.cost.n = spec.n;
  op.cost.k = spec.k;
  op.cost.batch = spec.batch;
  op.cost.is_fixed = spec.fixed_time.has_value();
  op.cost.fixed_time = spec.fixed_time.value_or(0);
  if (spec.dtype)
    op.cost.dtype = *spec.dtype;
  else
    op.cost.dtype = dtype(spec.writes.empty() ? spec.updates.front() : spec.writes.front());
  op.scope = scope_;
  op.host_ops = spec.host_ops;
  op.keep_under_selective = spec.keep_under_selective;
  op.crosses_rows = spec.crosses_rows;
  op.is_opaque = spec.is_opaque;
  op.reads = std::move(spec.reads);
  op.own_reads = static_cast<std::uint32_t>(op.reads.size());
  op.writes = std::move(spec.writes);
  op.updates = std::move(spec.updates);
  for (const ValueIndex held : spec.holds)
    if (std::find(op.reads.begin(), op.reads.end(), held) == op.reads.end())
      op.reads.push_back(held);
  (in_backward_ ? tape_.backward : tape_.forward).push_back(std::move(op));
}

void TapeBuilder::elementwise(std::vector<ValueIndex> reads, std::vector<ValueIndex> writes,
                              std::int64_t flops) {
  OpSpec spec;
  spec.flops = times(flops, elements(writes.front()));
  spec.reads = std::move(reads);
  spec.writes = std::move(writes);
  op(std::move(spec));
}

namespace {

OpSpec product(std::vector<ValueIndex> reads, ValueIndex out, std::int64_t batch, std::int64_t m,
               std::int64_t n, std::int64_t k, std::optional<DType> dtype) {
  OpSpec spec;
  spec.kind = OpKind::gemm;
  spec.dtype = dtype;
  spec.reads = std::move(reads);
  spec.writes = {out};
  spec.flops = times(times(times(2 * batch, m), n), k);
  spec.m = m;
  spec.n = n;
  spec.k = k;
  spec.batch = batch;
  return spec;
}

}  // namespace

void TapeBuilder::gemm(std::vector<ValueIndex> reads, ValueIndex out, std::int64_t batch,
                       std::int64_t m, std::int64_t n, std::int64_t k, float host_ops, bool keep,
                       std::vector<ValueIndex> holds, std::optional<DType> dtype) {
  OpSpec spec = product(std::move(reads), out, batch, m, n, k, dtype);
  spec.host_ops = host_ops;
  spec.keep_under_selective = keep;
  spec.holds = std::move(holds);
  op(std::move(spec));
}

void TapeBuilder::weight_gemm(std::vector<ValueIndex> reads, ValueIndex out, std::int64_t batch,
                              std::int64_t m, std::int64_t n, std::int64_t rows,
                              std::optional<DType> dtype) {
  constexpr std::int64_t kWord = 8;
  if (m % kWord != 0 && n % kWord == 0) std::swap(m, n);
  OpSpec spec = product(std::move(reads), out, batch, m, n, rows, dtype);
  spec.k = (rows + kWord - 1) / kWord * kWord;
  op(std::move(spec));
}

bool TapeBuilder::next_matmul_is_kept() { return is_block_ && ++matmuls_ % 2 == 1; }

void TapeBuilder::node(std::vector<ValueIndex> outputs, Backward backward) {
  assert(!in_backward_);
  bool needed = std::exchange(reads_need_, false);
  for (const ValueIndex output : outputs) needed = needed || needs_[output];
  for (const ValueIndex output : outputs) needs_[output] = needed;
  if (needed) nodes_.push_back({std::move(outputs), scope_, std::move(backward)});
}

void TapeBuilder::hold_until_backward_ends(const std::vector<ValueIndex>& values) {
  held_to_the_end_.insert(held_to_the_end_.end(), values.begin(), values.end());
}

void TapeBuilder::return_beside_output(const std::vector<ValueIndex>& values) {
  tape_.returned.insert(tape_.returned.end(), values.begin(), values.end());
}

// --- backward ---

void TapeBuilder::give(ValueIndex value, ValueIndex gradient) {
  assert(in_backward_);
  if (needs_[value]) given_.emplace_back(value, gradient);
}

void TapeBuilder::run(const Node& node) {
  std::vector<std::optional<ValueIndex>> gradients;
  bool any = false;
  for (const ValueIndex output : node.outputs) {
    gradients.push_back(std::exchange(pending_[output], std::nullopt));
    any = any || gradients.back().has_value();
  }
  if (!any) return;
  scope_ = node.scope;
  const std::size_t first = tape_.backward.size();
  given_.clear();
  node.backward(*this, gradients);
  hold_through(first, gradients);
  for (const auto& [value, gradient] : std::exchange(given_, {})) accumulate(value, gradient);
}

void TapeBuilder::hold_through(std::size_t first_op, Gradients gradients) {
  if (tape_.backward.size() < first_op + 2) return;
  TapeOp& last = tape_.backward.back();
  const auto hold = [&](ValueIndex value) {
    const auto touches = [value](const std::vector<ValueIndex>& list) {
      return std::find(list.begin(), list.end(), value) != list.end();
    };
    if (!touches(last.reads) && !touches(last.writes) && !touches(last.updates))
      last.reads.push_back(value);
  };
  for (std::size_t i = first_op; i + 1 < tape_.backward.size(); ++i) {
    for (const ValueIndex value : tape_.backward[i].reads) {
      const ValueKind kind = tape_.values[storage_of(tape_, value)].kind;
      const bool is_saved = kind == ValueKind::activation || kind == ValueKind::input;
      if (is_saved) hold(value);
    }
  }
  for (const auto& gradient : gradients)
    if (gradient) hold(*gradient);
}

void TapeBuilder::accumulate(ValueIndex value, ValueIndex gradient) {
  if (!pending_[value]) {
    pending_[value] = gradient;
    return;
  }
  const ValueIndex sum = *pending_[value];
  const ValueIndex storage = storage_of(tape_, sum);
  std::ptrdiff_t holders = 0;
  for (const auto& other : pending_)
    if (other && storage_of(tape_, *other) == storage) ++holders;
  OpSpec spec;
  spec.flops = elements(value);
  if (holders == 1) {
    spec.reads = {gradient};
    spec.updates = {sum};
  } else {
    spec.reads = {sum, gradient};
    spec.writes = {make("grad " + name(value), elements(value), dtype(value))};
    pending_.resize(tape_.values.size());
    pending_[value] = spec.writes.front();
  }
  op(std::move(spec));
}

void TapeBuilder::hand_on_input_gradient() {
  const ValueIndex gradient = pending_[tape_.input].value();
  Value& value = tape_.values[gradient];
  if (value.kind == ValueKind::gradient && !value.is_view) {
    value.kind = ValueKind::input_grad;
    tape_.input_grad = gradient;
  } else {
    // The gradient of a residual stream: one buffer from the module's end to its start.
    tape_.input_grad = view("input gradient", gradient, elements(gradient));
    tape_.values[tape_.input_grad].kind = ValueKind::input_grad;
  }
}

Tape TapeBuilder::finish(ValueIndex output, bool has_input_grad, std::int64_t model_flops) {
  in_backward_ = true;
  tape_.output = output;
  if (tape_.values[output].kind == ValueKind::activation)
    tape_.values[output].kind = ValueKind::output;
  Value start;
  start.kind = ValueKind::output_grad;
  start.name = "output gradient";
  start.dtype = dtype(output);
  tape_.output_grad = add_value(std::move(start), elements(output));
  pending_.resize(tape_.values.size());
  if (needs_[output]) pending_[output] = tape_.output_grad;
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    pending_.resize(tape_.values.size());
    run(nodes_[i]);
  }
  tape_.has_output_grad = needs_[output];
  if (!tape_.backward.empty()) {
    std::vector<ValueIndex>& last = tape_.backward.back().reads;
    last.insert(last.end(), held_to_the_end_.begin(), held_to_the_end_.end());
  }
  tape_.held = std::move(held_to_the_end_);
  tape_.held.insert(tape_.held.end(), tape_.returned.begin(), tape_.returned.end());
  tape_.has_input_grad = has_input_grad && needs_[tape_.input];
  if (tape_.has_input_grad) hand_on_input_gradient();
  tape_.model_flops = model_flops;
  return std::move(tape_);
}

}  // namespace foregather::plan
