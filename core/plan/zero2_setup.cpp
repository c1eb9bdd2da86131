#include <algorithm>

#include "core/plan/zero2_schedule.h"

namespace foregather::plan {

Zero2Schedule::Zero2Schedule(Lowering& lowering) : lowering_(lowering), tied_(lowering) {
  const Workload& workload = lowering.workload;
  type_ = workload.parallel.param_dtype;
  reduced_ = workload.parallel.reduce_dtype;
  overlaps_ = workload.zero.overlap_comm.value_or(false);
  world_ = make_group(lowering.builder, "world", workload.parallel.world_size, 1, workload);
  reduce_stream_ = overlaps_ ? lowering.builder.stream("reduce") : lowering.compute;
  lowering.owners.assign(lowering.layout.units.size(), lowering.root);
}

void Zero2Schedule::init(ModuleWriter& modules) {
  add_parameters(modules);
  add_gradient_buffers();
  add_update();
}

// A storage for each size and purpose.
Buffer Zero2Schedule::cached(std::int64_t elements, DType type, std::string_view name) {
  Buffer& buffer = cached_[{elements * size_of(type), std::string(name)}];
  if (!buffer.storage)
    buffer = lowering_.buffer(elements, type, name, Cause::communication_buffer, lowering_.root);
  return buffer;
}

// flatten_dense_tensors_aligned: padded so that each partition starts at a multiple of two
// elements.
void Zero2Schedule::add_parameters(ModuleWriter& modules) {
  const ShardLayout& layout = lowering_.layout;
  std::int64_t total = 0;
  for (const ShardedParameter& sharded : layout.parameters) {
    Parameter& parameter = parameters_.emplace_back();
    parameter.owner = {modules.scope(sharded.module), {}};
    parameter.elements = sharded.elements;
    if (!requires_gradient(sharded)) continue;
    parameter.offset = total;
    total += sharded.elements;
  }
  constexpr std::int64_t kAlignment = 2;
  const std::int64_t unit = kAlignment * world_.ranks;
  const std::int64_t padded = (total + unit - 1) / unit * unit;
  partition_ = padded / world_.ranks;
  flat_ = lowering_.buffer(padded, type_, "parameters", Cause::unsharded_parameter, lowering_.root);
  lowering_.alloc(flat_, lowering_.compute);
  std::vector<Buffer> places;
  for (std::uint32_t row = 0; row < parameters_.size(); ++row) {
    Parameter& parameter = parameters_[row];
    if (!requires_gradient(layout.parameters[row])) {
      places.push_back(lowering_.buffer(parameter.elements, type_, "frozen parameter",
                                        Cause::unsharded_parameter, parameter.owner));
      lowering_.alloc(places.back(), lowering_.compute);
      continue;
    }
    parameter.own = std::clamp<std::int64_t>(partition_ - parameter.offset, 0, parameter.elements);
    if (parameter.own > 0) own_rows_.push_back(row);
    places.push_back(slice(lowering_, flat_, parameter.offset, parameter.elements, type_));
  }
  for (std::uint32_t m = 0; m < lowering_.modules(); ++m)
    for (ParameterIndex p = 0; p < lowering_.tape_of(m).parameters.size(); ++p)
      modules.set_parameter(m, p, places[layout.row_of(m, p)]);
}

void Zero2Schedule::add_gradient_buffers() {
  const Workload& workload = lowering_.workload;
  const auto add = [&](std::int64_t elements, DType type, std::string_view name, Cause cause) {
    return lowering_.buffer(elements, type, name, cause, lowering_.root);
  };
  for (int i = 0; i < (overlaps_ ? 2 : 1); ++i)
    buckets_.push_back(add(workload.zero.reduce_bucket_size, type_, "gradient bucket",
                           Cause::communication_buffer));
  std::int64_t kept = 0, largest = 0;
  for (const std::uint32_t row : own_rows_) kept += parameters_[row].elements;
  for (Parameter& parameter : parameters_) {
    largest = std::max(largest, parameter.elements);
    if (parameter.own == 0) continue;
    parameter.doubled = add(parameter.own, DType::f64, "gradient in fp64", Cause::temporary);
    if (offloads() && workload.train.master != type_)
      parameter.widened = add(parameter.own, workload.train.master, "gradient", Cause::temporary);
  }
  norms_ = add(std::ssize(own_rows_) + 1, DType::f64, "norms", Cause::temporary);
  if (type_ == DType::f16) add_overflow_checks();
  if (offloads()) {
    host_gradients_ =
        on_host(lowering_, add(kept, type_, "accumulated gradients", Cause::reduced_gradient));
    loaded_ = add(largest, type_, "gradient on the device", Cause::communication_buffer);
    lowering_.alloc(host_gradients_, lowering_.compute);
    lowering_.alloc(loaded_, lowering_.compute);
    return;
  }
  kept_ = add(kept, type_, "gradient partition", Cause::reduced_gradient);
  if (workload.train.grad_accum > 1)
    kept_again_ = add(kept, type_, "gradient partition of a micro-batch", Cause::reduced_gradient);
}

void Zero2Schedule::add_overflow_checks() {
  const auto add = [&](std::int64_t elements, DType type) {
    return lowering_.buffer(elements, type, "overflow check", Cause::temporary, lowering_.root);
  };
  overflow_flag_ = add(1, DType::u8);
  if (offloads()) return;
  for (const std::uint32_t row : own_rows_) {
    const std::int64_t n = parameters_[row].own;
    checks_.push_back({add(n, DType::f32), add(n, DType::boolean), add(n, DType::f32),
                       add(n, DType::boolean), add(n, DType::boolean), add(n, DType::f32)});
  }
}

void Zero2Schedule::add_update() {
  ZeroPartition partition;
  partition.elements = partition_;
  partition.parameters = slice(lowering_, flat_, 0, partition_, type_);
  if (!offloads()) {
    const std::int64_t kept = kept_.bytes / size_of(type_);
    partition.gradients = slice(lowering_, kept_, 0, std::min(kept, partition_), type_);
    partition.freed = kept_;
    partition.freed_on = reduce_stream_;
  }
  partition.flattens = true;
  update_ =
      std::make_unique<ZeroUpdate>(lowering_, std::vector{partition}, type_, offloads(), false);
  update_->init();
}

}  // namespace foregather::plan
