#include <algorithm>
#include <utility>

#include "core/plan/autocast.h"
#include "core/plan/deepcompile_schedule.h"
#include "core/plan/zero3_shards.h"

namespace foregather::plan {

DeepCompileSchedule::DeepCompileSchedule(Lowering& lowering) : lowering_(lowering) {
  const Workload& workload = lowering.workload;
  type_ = workload.parallel.param_dtype;
  reduced_ = workload.parallel.reduce_dtype;
  accumulated_ = workload.zero.grad_accum_dtype.value_or(type_);
  GraphBuilder& builder = lowering.builder;
  const std::uint32_t world = workload.parallel.world_size;
  world_ = make_group(builder, "world", world, 1, workload);
  if (!is_alone()) communicator_ = another_communicator(builder, "deepcompile", world_);
  constexpr std::int32_t kHigh = -1;
  ag_ = builder.stream("ag", kHigh);
  rs_ = builder.stream("rs", kHigh);
  copy_ = builder.stream("copy", kHigh);
  own_as_one_unit(lowering, world_, type_, reduced_);
}

void DeepCompileSchedule::init(ModuleWriter& modules) {
  modules_ = &modules;
  add_parameters();
  place_parameters();
  add_partitions();
  add_buckets();
  plan_graph(forward_, false);
  plan_graph(backward_, true);
}

void DeepCompileSchedule::add_parameters() {
  const ShardLayout& layout = lowering_.layout;
  const std::int64_t ranks = world_.ranks;
  std::int64_t total = 0, largest = 0;
  parameters_.resize(layout.parameters.size());
  for (std::uint32_t row = 0; row < parameters_.size(); ++row) {
    const ShardedParameter& sharded = layout.parameters[row];
    Parameter& parameter = parameters_[row];
    parameter.owner = {modules_->scope(sharded.module), lowering_.owners.front().unit};
    parameter.elements = sharded.elements;
    parameter.shard = (sharded.elements + ranks - 1) / ranks;
    parameter.trained = requires_gradient(sharded);
    largest = std::max(largest, parameter.shard);
    const std::string& name = lowering_.tape_of(sharded.module).parameters[sharded.parameter].name;
    parameter.full = lowering_.buffer(parameter.shard * ranks, type_, name,
                                      Cause::unsharded_parameter, parameter.owner);
    was_gathered_.push_back(lowering_.builder.event());
    if (parameter.trained) {
      trained_.push_back(row);
      total += parameter.shard;
      continue;
    }
    parameter.partition =
        lowering_.buffer(parameter.shard, type_, name, Cause::parameter_shard, parameter.owner);
    lowering_.alloc(parameter.partition, lowering_.compute);
  }
  partitions_ =
      lowering_.buffer(total, type_, "parameters", Cause::parameter_shard, lowering_.owners[0]);
  lowering_.alloc(partitions_, lowering_.compute);
  std::int64_t offset = 0;
  for (const std::uint32_t row : trained_) {
    Parameter& parameter = parameters_[row];
    parameter.partition = slice(lowering_, partitions_, offset, parameter.shard, type_);
    offset += parameter.shard;
  }
  if (!lowering_.workload.zero.symmetric_memory || is_alone()) return;
  workspace_ = lowering_.buffer(largest, type_, "symmetric workspace", Cause::communication_buffer,
                                lowering_.owners[0]);
  lowering_.alloc(workspace_, lowering_.compute);
}

// Under autocast: what a matmul reads in a shorter dtype.
bool DeepCompileSchedule::is_cast(std::uint32_t module, ParameterIndex index) const {
  return type_ != lowering_.workload.train.compute &&
         is_matmul_operand(lowering_.tape_of(module), index);
}

// Gradients of what autocast leaves alone arrive in the gathered dtype by themselves.
void DeepCompileSchedule::place_parameters() {
  const DType computed = lowering_.workload.train.compute;
  for (std::uint32_t m = 0; m < lowering_.modules(); ++m) {
    const Tape& tape = lowering_.tape_of(m);
    for (ParameterIndex p = 0; p < tape.parameters.size(); ++p) {
      Parameter& parameter = parameters_[lowering_.layout.row_of(m, p)];
      const std::string& name = tape.parameters[p].name;
      if (tape.parameters[p].trainable) ++parameter.shares;
      if (!is_cast(m, p)) {
        modules_->set_parameter(m, p, parameter.full);
        if (type_ != computed)
          modules_->set_gradient(m, p,
                                 lowering_.buffer(parameter.elements, type_, "gradient " + name,
                                                  Cause::gradient, parameter.owner));
        continue;
      }
      if (!parameter.computed.storage)
        parameter.computed =
            lowering_.buffer(parameter.elements, computed, name, Cause::cast_copy, parameter.owner);
      modules_->set_parameter(m, p, parameter.computed);
    }
  }
}

void DeepCompileSchedule::add_partitions() {
  std::vector<std::int64_t> shards;
  std::int64_t total = 0;
  for (const std::uint32_t row : trained_) {
    shards.push_back(parameters_[row].shard);
    total += shards.back();
  }
  gradient_partitions_ = lowering_.buffer(total, accumulated_, "gradient partitions",
                                          Cause::reduced_gradient, lowering_.owners[0]);
  lowering_.alloc(gradient_partitions_, lowering_.compute);

  std::int64_t offset = 0;
  for (const std::uint32_t row : trained_) {
    Parameter& parameter = parameters_[row];
    parameter.gradient_partition =
        slice(lowering_, gradient_partitions_, offset, parameter.shard, accumulated_);
    offset += parameter.shard;
  }
  SubGroups groups =
      sub_groups(lowering_, shards, partitions_, type_, gradient_partitions_, accumulated_);
  update_ = std::make_unique<ZeroUpdate>(lowering_, std::move(groups.partitions), accumulated_,
                                         false, false);
  update_->init();
}

void DeepCompileSchedule::add_buckets() {
  const bool is_added = lowering_.workload.train.grad_accum > 1 || reduced_ != accumulated_;
  std::int64_t elements = lowering_.workload.zero.reduce_bucket_size;
  std::int64_t total = 0;
  for (const std::uint32_t row : trained_) {
    Parameter& parameter = parameters_[row];
    total += parameter.elements;
    elements = std::max(elements, parameter.elements);
    parameter.cast_gradient = lowering_.buffer(parameter.elements, reduced_, "cast gradient",
                                               Cause::cast_copy, parameter.owner);
    if (is_added)
      parameter.received = lowering_.buffer(parameter.shard, reduced_, "reduced gradient",
                                            Cause::temporary, parameter.owner);
    norm_doubles_.push_back(lowering_.buffer(parameter.shard, DType::f64, "gradient in fp64",
                                             Cause::temporary, parameter.owner));
  }
  norms_ = lowering_.buffer(std::ssize(trained_) + 1, DType::f64, "norms", Cause::temporary,
                            lowering_.owners[0]);
  for (int i = 0; i < (lowering_.workload.zero.double_buffer ? 2 : 1); ++i) {
    buckets_.push_back(lowering_.buffer(elements, reduced_, "gradient bucket",
                                        Cause::communication_buffer, lowering_.owners[0]));
    was_flushed_.push_back(lowering_.builder.event());
  }
}

// First and last uses of parameters, in the order of the graph.
void DeepCompileSchedule::plan_graph(GraphPlan& graph, bool backward) {
  const auto rows = parameters_.size();
  std::vector<std::optional<Place>> cast_first(rows), cast_last(rows), full_last(rows);
  for (std::uint32_t i = 0; i < lowering_.modules(); ++i) {
    const std::uint32_t m = backward ? lowering_.modules() - 1 - i : i;
    const Recipe& recipe = modules_->recipe(m);
    const RecipePass& pass = backward ? recipe.backward : recipe.forward;
    for (std::uint32_t op = 0; op < pass.ops.size(); ++op) {
      const Range& accesses = pass.ops[op].accesses;
      for (std::uint32_t a = accesses.first; a < accesses.end(); ++a) {
        const std::uint32_t index = pass.accesses[a].place - recipe.parameter(0);
        if (pass.accesses[a].place < recipe.parameter(0) || index >= recipe.parameters) continue;
        const std::uint32_t row = lowering_.layout.row_of(m, index);
        if (!is_cast(m, index)) {
          full_last[row] = Place{m, op};
          continue;
        }
        if (!cast_first[row]) cast_first[row] = Place{m, op};
        cast_last[row] = Place{m, op};
      }
    }
  }
  graph.read_uncast.resize(rows);
  for (std::uint32_t row = 0; row < rows; ++row) {
    if (!cast_last[row] && !full_last[row]) continue;
    graph.rows.push_back(row);
    graph.read_uncast[row] = full_last[row].has_value();
    if (cast_first[row]) graph.cast[*cast_first[row]].push_back(row);
    if (cast_last[row]) graph.drop_computed[*cast_last[row]].push_back(row);
    if (!full_last[row]) continue;
    // Modules that share a parameter come in either order.
    const bool casts_later =
        cast_first[row] && (backward ? cast_first[row]->first < full_last[row]->first
                                     : cast_first[row]->first > full_last[row]->first);
    graph.drop_full[casts_later ? *cast_first[row] : *full_last[row]].push_back(row);
  }
}

}  // namespace foregather::plan
