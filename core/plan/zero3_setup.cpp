#include <algorithm>
#include <utility>

#include "core/plan/zero3_schedule.h"

namespace foregather::plan {

Zero3Schedule::Zero3Schedule(Lowering& lowering) : lowering_(lowering), tied_(lowering) {
  const Workload& workload = lowering.workload;
  type_ = workload.parallel.param_dtype;
  reduced_ = workload.parallel.reduce_dtype;
  accumulated_ = workload.zero.grad_accum_dtype.value_or(type_);
  GraphBuilder& builder = lowering.builder;
  const std::uint32_t world = workload.parallel.world_size;
  world_ = make_group(builder, "world", world, 1, workload);
  const std::uint32_t hpz = workload.zero.hpz_partition_size;
  if (hpz > 1 && hpz < world) secondary_ = make_group(builder, "hpz", hpz, 1, workload);
  const bool overlaps = workload.zero.overlap_comm.value_or(true);
  gather_stream_ = overlaps ? builder.stream("all_gather") : lowering.compute;
  reduce_stream_ = overlaps ? builder.stream("reduce") : lowering.compute;
  nccl_ = builder.stream("nccl");
  nccl_secondary_ = secondary_.ranks > 1 ? builder.stream("nccl_hpz") : nccl_;
  for (Throttle* throttle : {&awaits_, &reductions_})
    for (int i = 0; i < 4; ++i) throttle->events.push_back(builder.event());
  own_as_one_unit(lowering, world_, type_, reduced_);
}

bool Zero3Schedule::offloads_parameters() const {
  const Offload offload = lowering_.workload.parallel.offload;
  return offload == Offload::parameters || offload == Offload::all;
}

bool Zero3Schedule::offloads_optimizer() const {
  const Offload offload = lowering_.workload.parallel.offload;
  return offload == Offload::optimizer || offload == Offload::all;
}

void Zero3Schedule::init(ModuleWriter& modules) {
  modules_ = &modules;
  add_parameters();
  add_submodules();
  add_partitions();
  add_gradient_buffers();
  add_norms();
  place_parameters();
}

void Zero3Schedule::add_parameters() {
  const ShardLayout& layout = lowering_.layout;
  const std::int64_t ranks = world_.ranks;
  std::int64_t total = 0;
  parameters_.resize(layout.parameters.size());
  for (std::uint32_t row = 0; row < parameters_.size(); ++row) {
    const ShardedParameter& sharded = layout.parameters[row];
    Parameter& parameter = parameters_[row];
    parameter.owner = {modules_->scope(sharded.module), lowering_.owners.front().unit};
    parameter.elements = sharded.elements;
    parameter.shard = (sharded.elements + ranks - 1) / ranks;
    const bool trained = requires_gradient(sharded);
    if (trained) trained_.push_back(row);
    if (trained) total += parameter.shard;
    const std::string& name = lowering_.tape_of(sharded.module).parameters[sharded.parameter].name;
    const auto add = [&](std::int64_t elements, DType type, Cause cause) {
      return lowering_.buffer(elements, type, name, cause, parameter.owner);
    };
    if (!trained) {
      parameter.partition = add(parameter.shard, type_, Cause::parameter_shard);
      if (offloads_parameters()) on_host(lowering_, parameter.partition);
      lowering_.alloc(parameter.partition, lowering_.compute);
    }
    if (gathers()) parameter.full = add(parameter.shard * ranks, type_, Cause::unsharded_parameter);
    if (offloads_parameters()) parameter.loaded = add(parameter.shard, type_, Cause::cast_copy);
    if (secondary_.ranks > 1) {
      const std::int64_t part = parameter.shard * ranks / secondary_.ranks;
      parameter.secondary = add(part, type_, Cause::parameter_shard);
    }
  }
  partitions_ =
      lowering_.buffer(total, type_, "parameters", Cause::parameter_shard, lowering_.owners[0]);
  if (offloads_parameters()) on_host(lowering_, partitions_);
  lowering_.alloc(partitions_, lowering_.compute);
  std::int64_t offset = 0;
  for (const std::uint32_t row : trained_) {
    Parameter& parameter = parameters_[row];
    parameter.partition = slice(lowering_, partitions_, offset, parameter.shard, type_);
    offset += parameter.shard;
  }
}

void Zero3Schedule::add_submodules() {
  const Zero& zero = lowering_.workload.zero;
  std::vector<Rows> submodules{{}};  // the root's hooks fire first
  for (std::uint32_t m = 0; m < lowering_.modules(); ++m) {
    const Tape& tape = lowering_.tape_of(m);
    const std::vector<Submodule> inner =
        submodules_of(tape, lowering_.model.modules[m].path.empty());
    HookTable& table = hooks_.emplace_back();
    table.spans = spans_of(tape, inner, modules_->recipe(m));
    for (const Submodule& submodule : inner) {
      table.submodules.push_back(static_cast<std::uint32_t>(submodules.size()));
      Rows& rows = submodules.emplace_back();
      for (const ParameterIndex p : submodule.parameters)
        rows.push_back(lowering_.layout.row_of(m, p));
      std::sort(rows.begin(), rows.end());
    }
  }
  std::vector<Zero3Coordinator::Parameter> parameters;
  std::int64_t persistent = 0;
  for (const Parameter& parameter : parameters_) {
    const bool persists = parameter.elements <= zero.param_persistence_threshold &&
                          parameter.elements <= zero.model_persistence_threshold - persistent;
    if (persists) persistent += parameter.elements;
    parameters.push_back({parameter.elements, persists});
  }
  coordinator_ = std::make_unique<Zero3Coordinator>(
      Zero3Coordinator::Limits{zero.prefetch_bucket_size, zero.max_live_parameters,
                               zero.max_reuse_distance},
      std::move(parameters), std::move(submodules));
}

void Zero3Schedule::add_partitions() {
  std::vector<std::int64_t> shards;
  std::int64_t total = 0;
  for (const std::uint32_t row : trained_) {
    shards.push_back(parameters_[row].shard);
    total += shards.back();
  }
  gradient_partitions_ = lowering_.buffer(total, accumulated_, "gradient partitions",
                                          Cause::reduced_gradient, lowering_.owners[0]);
  if (offloads_optimizer()) on_host(lowering_, gradient_partitions_);

  SubGroups groups =
      sub_groups(lowering_, shards, partitions_, type_, gradient_partitions_, accumulated_);
  for (std::size_t i = 0; i < trained_.size(); ++i)
    parameters_[trained_[i]].place = groups.places[i];
  update_ = std::make_unique<ZeroUpdate>(lowering_, std::move(groups.partitions), accumulated_,
                                         offloads_optimizer(), offloads_parameters());
  update_->init();
}

void Zero3Schedule::add_gradient_buffers() {
  const Zero& zero = lowering_.workload.zero;
  if (zero.contiguous_gradients) {
    bucket_ = lowering_.buffer(zero.reduce_bucket_size, reduced_, "gradient bucket",
                               Cause::communication_buffer, lowering_.owners[0]);
    lowering_.alloc(bucket_, lowering_.compute);
  }
  lowering_.alloc(gradient_partitions_, lowering_.compute);
  const bool repeats = lowering_.workload.train.grad_accum > 1;
  std::int64_t offset = 0;
  for (const std::uint32_t row : trained_) {
    Parameter& parameter = parameters_[row];
    parameter.gradient_partition =
        slice(lowering_, gradient_partitions_, offset, parameter.shard, accumulated_);
    offset += parameter.shard;
    const auto add = [&](std::int64_t elements, DType type, std::string_view name) {
      return lowering_.buffer(elements, type, name, Cause::cast_copy, parameter.owner);
    };
    if (reduced_ != type_) {
      parameter.cast_gradient = add(parameter.elements, reduced_, "cast gradient");
      parameter.cast_partition = add(parameter.shard, type_, "cast gradient partition");
    }
    if ((repeats && accumulated_ != type_) || offloads_optimizer())
      parameter.added = add(parameter.shard, accumulated_, "gradient partition");
  }
}

void Zero3Schedule::add_norms() {
  norm_doubles_.resize(parameters_.size());
  for (const std::uint32_t row : trained_)
    norm_doubles_[row] = lowering_.buffer(parameters_[row].shard, DType::f64, "gradient in fp64",
                                          Cause::temporary, parameters_[row].owner);
  norms_ = lowering_.buffer(std::ssize(trained_) + 1, DType::f64, "norms", Cause::temporary,
                            lowering_.owners[0]);
  if (type_ != DType::f16) return;
  overflow_flag_ =
      lowering_.buffer(1, DType::u8, "overflow flag", Cause::temporary, lowering_.owners[0]);
  overflow_ = lowering_.buffer(gradient_partitions_.bytes / size_of(accumulated_), DType::boolean,
                               "overflow check", Cause::temporary, lowering_.owners[0]);
}

void Zero3Schedule::place_parameters() {
  for (std::uint32_t m = 0; m < lowering_.modules(); ++m)
    for (ParameterIndex p = 0; p < lowering_.tape_of(m).parameters.size(); ++p) {
      const Parameter& parameter = parameters_[lowering_.layout.row_of(m, p)];
      modules_->set_parameter(m, p, gathers() ? parameter.full : parameter.partition);
    }
}

}  // namespace foregather::plan
