#include "core/plan/ddp_schedule.h"

namespace foregather::plan {

DdpSchedule::DdpSchedule(Lowering& lowering) : lowering_(lowering), tied_(lowering) {
  const Workload& workload = lowering.workload;
  stored_ = trained_type(workload.train);
  reduces_ = workload.parallel.strategy != Strategy::single;
  views_ = reduces_ && workload.parallel.gradient_as_bucket_view;
  finds_unused_ = reduces_ && workload.parallel.find_unused_parameters;
  const Compile compile = workload.train.compile;
  is_one_node_ = !reduces_ && (compile == Compile::full || compile == Compile::thunder);
  if (reduces_) {
    world_ = make_group(lowering.builder, "world", workload.parallel.world_size, 1, workload);
    communication_ = lowering.builder.stream("nccl");
  }
  lowering_.owners.assign(lowering_.layout.units.size(), lowering_.root);
}

void DdpSchedule::init(ModuleWriter& modules) {
  modules_ = &modules;
  add_parameters();
  add_places();
  if (reduces_) add_buckets();
  add_optimized();
  const std::size_t rows = parameters_.size();
  has_gradient_.assign(rows, false);
  is_view_.assign(rows, false);
}

void DdpSchedule::add_parameters() {
  for (const ShardedParameter& parameter : lowering_.layout.parameters) {
    const Owner owner{modules_->scope(parameter.module), {}};
    const std::string& name =
        lowering_.tape_of(parameter.module).parameters[parameter.parameter].name;
    row_owners_.push_back(owner);
    if (parameter.trainable) trained_.push_back(static_cast<std::uint32_t>(parameters_.size()));
    const DType type = parameter.trainable ? stored_ : lowering_.workload.train.master;
    parameters_.push_back(
        lowering_.buffer(parameter.elements, type, name, Cause::unsharded_parameter, owner));
    gradients_.push_back(
        lowering_.buffer(parameter.elements, stored_, "gradient " + name, Cause::gradient, owner));
    lowering_.alloc(parameters_.back(), lowering_.compute);
  }
}

void DdpSchedule::add_places() {
  copies_.emplace(lowering_, *modules_, lowering_.workload.train.master, parameters_, row_owners_);
  std::vector<std::uint32_t> last_place(parameters_.size());
  for (std::uint32_t m = 0; m < lowering_.modules(); ++m) {
    first_place_.push_back(static_cast<std::uint32_t>(places_.size()));
    const Tape& tape = lowering_.tape_of(m);
    for (ParameterIndex p = 0; p < tape.parameters.size(); ++p) {
      Place place;
      place.module = m;
      place.index = p;
      place.row = lowering_.layout.row_of(m, p);
      place.is_cast = copies_->has(m, p);
      const std::string& name = tape.parameters[p].name;
      const std::int64_t elements = tape.parameters[p].elements;
      const Owner owner{modules_->scope(m), {}};
      place.gradient =
          lowering_.buffer(elements, stored_, "gradient " + name, Cause::gradient, owner);
      if (!place.is_cast) modules_->set_parameter(m, p, parameters_[place.row]);
      last_place[place.row] = static_cast<std::uint32_t>(places_.size());
      places_.push_back(place);
    }
  }
  for (const std::uint32_t place : last_place) places_[place].is_first = true;
}

// A tied parameter is ready when its last share is there.
std::vector<std::uint32_t> DdpSchedule::ready_order() const {
  std::vector<std::uint32_t> order;
  for (std::uint32_t m = lowering_.modules(); m-- > 0;)
    for (const ParameterIndex index : modules_->gradients_in_order(m)) {
      const std::uint32_t row = lowering_.layout.row_of(m, index);
      if (tied_.has_shares(row)) std::erase(order, row);
      order.push_back(row);
    }
  return order;
}

void DdpSchedule::add_buckets() {
  std::vector<std::int64_t> sizes;
  for (const ShardedParameter& parameter : lowering_.layout.parameters)
    sizes.push_back(parameter.elements);
  const Parallel& parallel = lowering_.workload.parallel;
  first_plan_ = single_bucket(trained_, sizes);
  const auto assign = [&](std::span<const std::uint32_t> order) {
    return assign_buckets(order, sizes, size_of(stored_), parallel.first_bucket_bytes,
                          parallel.bucket_bytes);
  };
  rebuilt_plan_ = finds_unused_ ? reversed(assign(trained_)) : assign(ready_order());
  is_rebuilt_ = finds_unused_;
  const Cause cause = views_ ? Cause::gradient : Cause::communication_buffer;
  const auto make = [&](std::int64_t elements) {
    return lowering_.buffer(elements, stored_, "gradient bucket", cause, lowering_.root);
  };
  first_bucket_.was_reduced = lowering_.builder.event();
  for (const std::int64_t elements : rebuilt_plan_.elements)
    buckets_.push_back({make(elements), lowering_.builder.event(), 0});
  if (finds_unused_) {
    used_map_.buffer =
        lowering_.buffer(static_cast<std::int64_t>(trained_.size()), DType::i32, "used parameters",
                         Cause::communication_buffer, lowering_.root);
    used_map_.was_reduced = lowering_.builder.event();
    lowering_.alloc(used_map_.buffer, lowering_.compute);
  }
  if (views_ || is_rebuilt_) {
    for (const Bucket& bucket : buckets_) lowering_.alloc(bucket.buffer, lowering_.compute);
  } else {
    first_bucket_.buffer = make(first_plan_.elements.front());
    lowering_.alloc(first_bucket_.buffer, lowering_.compute);
  }
}

void DdpSchedule::add_optimized() {
  for (const std::uint32_t row : trained_) {
    OptimizedTensor tensor;
    tensor.parameter = parameters_[row];
    tensor.gradient = gradients_[row];
    if (views_) {
      const BucketPlace& place = rebuilt_plan_.places[row];
      tensor.gradient = buckets_[place.bucket].buffer;
      tensor.gradient_offset = place.offset * size_of(stored_);
    }
    tensor.elements = parameters_[row].bytes / size_of(stored_);
    tensor.owner = row_owners_[row];
    optimized_.push_back(tensor);
  }
}

void DdpSchedule::before_forward(std::uint32_t module) { copies_->before_forward(module); }
void DdpSchedule::after_forward(std::uint32_t module) { copies_->after_forward(module); }
void DdpSchedule::end_forward() { copies_->end_forward(); }
void DdpSchedule::before_backward(std::uint32_t module) { copies_->before_backward(module); }
void DdpSchedule::after_backward(std::uint32_t module) { copies_->after_backward(module); }

}  // namespace foregather::plan
