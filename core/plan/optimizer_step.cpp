#include "core/plan/optimizer_step.h"

#include <algorithm>
#include <array>
#include <limits>

#include "core/plan/foreach_kernels.h"

namespace foregather::plan {

namespace {

bool is_adamw(const Lowering& lowering) {
  return lowering.workload.train.optimizer == Optimizer::adamw;
}
bool is_fused(const Lowering& lowering) {
  return lowering.workload.train.optimizer_impl == OptimizerImpl::fused;
}
bool is_loop(const Lowering& lowering) {
  return lowering.workload.train.optimizer_impl == OptimizerImpl::for_loop;
}

DType state_type(const Train& train, std::int64_t elements) {
  switch (train.optimizer_state) {
    case StateType::f32: return DType::f32;
    case StateType::bf16: return DType::bf16;
    case StateType::int8:
      return has_block_states(train, elements) ? DType::u8 : trained_type(train);
    case StateType::as_master: break;
  }
  return trained_type(train);
}

}  // namespace

bool has_block_states(const Train& train, std::int64_t elements) {
  return train.optimizer_state == StateType::int8 && elements >= kFewestOfBlockStates &&
         elements % kBlockOfStates == 0;
}

Bytes bytes_of_state(const Train& train, std::int64_t elements) {
  return elements * size_of(state_type(train, elements));
}

OptimizerStep::OptimizerStep(Lowering& lowering, std::span<const OptimizedTensor> tensors)
    : lowering_(lowering), tensors_(tensors), type_(trained_type(lowering.workload.train)) {
  has_momentum_ = !is_adamw(lowering) && lowering.workload.train.momentum != 0;
  states_.reserve(tensors.size());
  for (const OptimizedTensor& tensor : tensors) add_state(tensor);
}

bool OptimizerStep::is_mixed() const {
  return is_adamw(lowering_) && lowering_.workload.train.optimizer_state != StateType::as_master;
}

void OptimizerStep::add_state(const OptimizedTensor& tensor) {
  const bool adamw = is_adamw(lowering_);
  const bool fused = is_fused(lowering_);
  State& state = states_.emplace_back();
  const auto add = [&](std::int64_t elements, DType type, BufferName& name, Cause cause) {
    return lowering_.buffer(elements, type, name, cause, tensor.owner);
  };
  if (is_mixed()) {
    const bool blocks = has_block_states(lowering_.workload.train, tensor.elements);
    const DType type = state_type(lowering_.workload.train, tensor.elements);
    state.first = add(tensor.elements, type, mean_, Cause::optimizer_state);
    state.second = add(tensor.elements, type, square_, Cause::optimizer_state);
    if (!blocks) return;
    const std::int64_t scales = tensor.elements / kBlockOfStates;
    state.first_scale = add(scales, DType::f32, mean_scale_, Cause::optimizer_state);
    state.second_scale = add(scales, DType::f32, square_scale_, Cause::optimizer_state);
    return;
  }
  if (adamw || has_momentum_)
    state.first = add(tensor.elements, type_, adamw ? mean_ : momentum_, Cause::optimizer_state);
  if (!adamw) return;
  state.second = add(tensor.elements, type_, square_, Cause::optimizer_state);
  if (fused)
    state.step = add(1, DType::f32, step_, Cause::optimizer_state);
  else
    state.temporary =
        add(tensor.elements, type_, is_loop(lowering_) ? quotient_ : root_, Cause::temporary);
  if (is_loop(lowering_)) state.root = add(tensor.elements, type_, root_, Cause::temporary);
}

const Buffer& OptimizerStep::of(std::size_t tensor, List list) const {
  switch (list) {
    case List::parameter: return tensors_[tensor].parameter;
    case List::gradient: return tensors_[tensor].gradient;
    case List::first: return states_[tensor].first;
    case List::second: return states_[tensor].second;
    case List::first_scale: return states_[tensor].first_scale;
    case List::second_scale: return states_[tensor].second_scale;
    case List::step: return states_[tensor].step;
    case List::temporary: return states_[tensor].temporary;
    case List::root: break;
  }
  return states_[tensor].root;
}

void OptimizerStep::launch(std::span<const Operand> operands, std::int64_t flops_an_element) {
  launch_over(0, tensors_.size(), operands, flops_an_element);
}

void OptimizerStep::launch_by_impl(std::span<const Operand> operands,
                                   std::int64_t flops_an_element) {
  if (!is_loop(lowering_)) return launch(operands, flops_an_element);
  for (std::size_t t = 0; t < tensors_.size(); ++t)
    launch_over(t, t + 1, operands, flops_an_element);
}

void OptimizerStep::launch_over(std::size_t first, std::size_t last,
                                std::span<const Operand> operands, std::int64_t flops_an_element) {
  scratch_.clear();
  Cost cost;
  std::int64_t elements = 0;
  for (std::size_t t = first; t < last; ++t) elements += tensors_[t].elements;
  const std::size_t tensors = last - first;
  for (const Operand operand : operands) {
    Bytes total = 0;
    for (std::size_t t = first; t < last; ++t) {
      const Buffer& buffer = of(t, operand.list);
      const bool is_gradient = operand.list == List::gradient;
      const Bytes offset = is_gradient ? tensors_[t].gradient_offset : 0;
      const Bytes bytes = is_gradient ? tensors_[t].elements * size_of(type_) : buffer.bytes;
      if (bytes == 0) continue;
      total += bytes;
      const AccessedTensor access{buffer.tensor, operand.mode, offset, bytes};
      // Neighbours in one buffer are one access.
      if (t > first && is_gradient && !scratch_.empty() &&
          scratch_.back().tensor == buffer.tensor &&
          scratch_.back().offset + scratch_.back().bytes == offset)
        scratch_.back().bytes += bytes;
      else
        scratch_.push_back(access);
    }
    if (operand.mode != Access::write) cost.bytes_read += total;
    if (operand.mode != Access::read) cost.bytes_written += total;
  }
  cost.kind = OpKind::optimizer;
  cost.dtype = type_;
  cost.flops = elements * flops_an_element;
  if (is_mixed())
    cost.kernels = kernel_count(static_cast<std::int64_t>(tensors));
  else if (!is_loop(lowering_))
    cost.kernels = foreach_kernels(operands.size(), tensors, elements);
  // One dispatched op, whose host time grows with the lists: measured (host_overhead.h).
  constexpr std::size_t kTensorsAnOp = 5;
  cost.host_ops = static_cast<std::uint16_t>(
      std::min<std::size_t>(is_mixed() ? tensors : 1 + tensors / kTensorsAnOp,
                            std::numeric_limits<std::uint16_t>::max()));
  lowering_.launch(
      {OpKind::optimizer, Role::optimizer, lowering_.compute, lowering_.builder.cost(cost), {}},
      lowering_.root, scratch_);
}

void OptimizerStep::fill(const Buffer& buffer, const Owner& owner) {
  lowering_.alloc(buffer, lowering_.compute);
  auto known = std::find_if(fills_.begin(), fills_.end(),
                            [&](const auto& entry) { return entry.first == buffer.bytes; });
  if (known == fills_.end()) {
    fills_.emplace_back(buffer.bytes, lowering_.copy_cost(OpKind::fill, type_, 0, buffer.bytes));
    known = fills_.end() - 1;
  }
  lowering_.launch({OpKind::fill, Role::optimizer, lowering_.compute, known->second, {}}, owner,
                   {writes(buffer)});
}

void OptimizerStep::create_states() {
  if (!is_adamw(lowering_)) return;
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    if (states_[t].step.storage) fill(states_[t].step, tensors_[t].owner);
    fill(states_[t].first, tensors_[t].owner);
    if (states_[t].first_scale.storage) fill(states_[t].first_scale, tensors_[t].owner);
    fill(states_[t].second, tensors_[t].owner);
    if (states_[t].second_scale.storage) fill(states_[t].second_scale, tensors_[t].owner);
  }
}

void OptimizerStep::update() {
  if (!is_adamw(lowering_))
    sgd();
  else if (is_mixed())
    adamw_mixed();
  else if (is_fused(lowering_))
    adamw_fused();
  else if (is_loop(lowering_))
    adamw_for_loop();
  else
    adamw_foreach();
}

void OptimizerStep::adamw_foreach() {
  using enum List;
  constexpr Access r = Access::read, w = Access::write, u = Access::accumulate;
  launch(std::array{Operand{parameter, u}}, 1);                     // weight decay
  launch(std::array{Operand{first, u}, Operand{gradient, r}}, 3);   // lerp
  launch(std::array{Operand{second, u}}, 1);                        // × beta2
  launch(std::array{Operand{second, u}, Operand{gradient, r}}, 3);  // addcmul
  for (const State& state : states_) lowering_.alloc(state.temporary, lowering_.compute);
  launch(std::array{Operand{temporary, w}, Operand{second, r}}, 1);  // sqrt
  launch(std::array{Operand{temporary, u}}, 1);                      // ÷ correction
  launch(std::array{Operand{temporary, u}}, 1);                      // + eps
  launch(std::array{Operand{parameter, u}, Operand{first, r}, Operand{temporary, r}}, 3);
  for (const State& state : states_) lowering_.free(state.temporary);
}

void OptimizerStep::adamw_fused() {
  using enum List;
  constexpr Access r = Access::read, u = Access::accumulate;
  launch(std::array{Operand{step, u}}, 1);
  launch(std::array{Operand{parameter, u}, Operand{gradient, r}, Operand{first, u},
                    Operand{second, u}, Operand{step, r}},
         12);
}

void OptimizerStep::adamw_for_loop() {
  using enum List;
  constexpr Access r = Access::read, w = Access::write, u = Access::accumulate;
  const StreamId stream = lowering_.compute;
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    const auto one = [&](std::initializer_list<Operand> operands, std::int64_t flops_an_element) {
      launch_over(t, t + 1, operands, flops_an_element);
    };
    one({{parameter, u}}, 1);              // weight decay
    one({{first, u}, {gradient, r}}, 3);   // lerp
    one({{second, u}}, 1);                 // × beta2
    one({{second, u}, {gradient, r}}, 3);  // addcmul
    lowering_.alloc(states_[t].root, stream);
    one({{root, w}, {second, r}}, 1);  // sqrt
    lowering_.alloc(states_[t].temporary, stream);
    one({{temporary, w}, {root, r}}, 1);  // ÷ correction
    lowering_.free(states_[t].root);
    one({{temporary, u}}, 1);  // + eps
    if (t > 0) lowering_.free(states_[t - 1].temporary);
    one({{parameter, u}, {first, r}, {temporary, r}}, 3);
  }
  if (!states_.empty()) lowering_.free(states_.back().temporary);
}

void OptimizerStep::adamw_mixed() {
  using enum List;
  constexpr Access r = Access::read, u = Access::accumulate;
  launch(std::array{Operand{parameter, u}, Operand{gradient, r}, Operand{first, u},
                    Operand{second, u}, Operand{first_scale, u}, Operand{second_scale, u}},
         20);
}

void OptimizerStep::sgd() {
  using enum List;
  constexpr Access r = Access::read, u = Access::accumulate;
  if (!has_momentum_) {
    launch_by_impl(std::array{Operand{parameter, u}, Operand{gradient, r}}, 2);
    return;
  }
  if (is_fused(lowering_)) {
    launch(std::array{Operand{parameter, u}, Operand{gradient, r}, Operand{first, u}}, 4);
    return;
  }
  launch_by_impl(std::array{Operand{first, u}}, 1);
  launch_by_impl(std::array{Operand{first, u}, Operand{gradient, r}}, 2);
  launch_by_impl(std::array{Operand{parameter, u}, Operand{first, r}}, 2);
}

bool OptimizerStep::first_update_is_usual() const { return !has_momentum_; }

void OptimizerStep::first_update() {
  using enum List;
  constexpr Access r = Access::read, w = Access::write, u = Access::accumulate;
  if (is_fused(lowering_)) {
    for (const State& state : states_) lowering_.alloc(state.first, lowering_.compute);
    launch(std::array{Operand{parameter, u}, Operand{gradient, r}, Operand{first, w}}, 4);
    return;
  }
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    const Buffer& state = states_[t].first;
    const Bytes bytes = state.bytes;
    lowering_.alloc(state, lowering_.compute);
    scratch_.assign(
        {reads(tensors_[t].gradient, tensors_[t].gradient_offset, bytes), writes(state)});
    lowering_.launch({OpKind::copy,
                      Role::optimizer,
                      lowering_.compute,
                      lowering_.copy_cost(OpKind::copy, type_, bytes, bytes),
                      {}},
                     tensors_[t].owner, scratch_);
  }
  launch_by_impl(std::array{Operand{parameter, u}, Operand{first, r}}, 2);
}

}  // namespace foregather::plan
