#include "core/plan/fsdp2_costs.h"
#include "core/plan/fsdp2_schedule.h"

namespace foregather::plan {

Fsdp2Schedule::Fsdp2Schedule(Lowering& lowering)
    : lowering_(lowering), tied_(lowering), loss_(loss_place(lowering)) {
  root_has_loss_ = (!loss_ || lowering.workload.train.loss_in_call) && !root_ends_before_loss();
  const Parallel& parallel = lowering.workload.parallel;
  types_ = {lowering.workload.train.master, parallel.param_dtype, parallel.reduce_dtype};
  GraphBuilder& builder = lowering.builder;
  groups_ = make_shard_groups(builder, lowering.workload);
  if (parallel.reshard_to > 1)
    kept_group_ = make_group(builder, "post_forward", parallel.reshard_to, 1, lowering.workload);
  reduce_communicator_ = groups_.shard.communicator;
  if (parallel.separate_reduce_communicator)
    reduce_communicator_ = another_communicator(builder, "reduce_scatter", groups_.shard);
  if (groups_.shard.ranks > 1) norm_.push_back(groups_.shard.communicator);
  copy_in_stream_ = builder.stream("all_gather_copy_in", -1);
  gather_stream_ = builder.stream("all_gather", -1);
  reduce_stream_ = builder.stream("reduce_scatter", -1);
  all_reduce_stream_ = groups_.replicate.ranks > 1 ? builder.stream("all_reduce") : reduce_stream_;
  add_units();
}

void Fsdp2Schedule::add_units() {
  const Parallel& parallel = lowering_.workload.parallel;
  GraphBuilder& builder = lowering_.builder;
  units_.resize(lowering_.layout.units.size());
  lowering_.owners.assign(units_.size(), lowering_.root);
  for (std::size_t u = 0; u < units_.size(); ++u) {
    Fsdp2Unit& unit = units_[u];
    const UnitPlan& plan = lowering_.layout.units[u];
    unit.parameters = plan.parameters;
    if (!has_work(unit)) continue;
    Unit row;
    row.scope = plan.is_root ? lowering_.root.scope : builder.scope(plan.path);
    row.group = groups_.shard.group;
    for (const ShardedParameter& parameter : lowering_.layout.parameters_of(plan)) {
      row.parameters += parameter.elements;
      const std::int64_t shard = padded_shard_elements(parameter, groups_.shard.ranks);
      unit.shard_elements += shard;
      unit.gathered_bytes += shard * size_of(gathered_type(parameter));
      if (!parameter.trainable) continue;
      unit.trained_elements += shard;
      ++unit.trained;
    }
    row.padded_elements = unit.shard_elements * groups_.shard.ranks;
    row.stored = types_.stored;
    row.gathered = types_.gathered;
    row.reduced = types_.reduced;
    unit.reshards = parallel.reshard_to > 1 ||
                    parallel.reshard_after_forward.value_or(!plan.is_root && !is_tail(plan));
    row.reshard = unit.reshards ? Reshard::after_forward : Reshard::after_backward;
    unit.owner = {row.scope, builder.unit(row)};
    lowering_.owners[u] = unit.owner;
  }
  find_twins();
}

// [norm, lm_head]: torchtitan (since 0.2, distributed/fsdp.py) and accelerate (since 1.15,
// utils/fsdp_utils.py) wrap it with reshard_after_forward=False, as its backward comes next.
bool Fsdp2Schedule::is_tail(const UnitPlan& plan) const {
  const Model& model = lowering_.model;
  return lowering_.workload.parallel.wrap == Wrap::block_embed_head && !model.is_tree &&
         plan.last_module + 1 == lowering_.modules() && !model.modules[plan.last_module].is_block;
}

// A unit of another name has the parameters of its first one in the same order.
void Fsdp2Schedule::find_twins() {
  const ShardLayout& layout = lowering_.layout;
  for (std::uint32_t u = 0; u < units_.size(); ++u) {
    if (!has_work(units_[u])) continue;
    const auto shares = layout.parameters[units_[u].parameters.first].shares;
    if (!shares) continue;
    std::vector<std::uint32_t>& twins = units_[layout.unit_of_parameter[*shares]].twins;
    if (twins.empty()) twins.push_back(layout.unit_of_parameter[*shares]);
    twins.push_back(u);
  }
  for (Fsdp2Unit& unit : units_) {
    const std::vector<std::uint32_t> twins = unit.twins;
    for (const std::uint32_t twin : twins) units_[twin].twins = twins;
  }
}

bool Fsdp2Schedule::is_other_name(const Fsdp2Unit& unit) const {
  return !unit.twins.empty() && &units_[unit.twins.front()] != &unit;
}

void Fsdp2Schedule::init(ModuleWriter& modules) {
  modules_ = &modules;
  add_parameters(modules);
  if (types_.gathered != lowering_.workload.train.compute) add_copies(modules);
  const std::size_t parameters = lowering_.layout.parameters.size();
  const Fsdp2Unit* before = nullptr;
  for (Fsdp2Unit& unit : units_) {
    if (!has_work(unit)) continue;
    add_unit_buffers(unit);
    price(unit, before);
    before = &unit;
  }
  gradients_.resize(parameters);
  add_accumulators(modules);

  if (offloads()) return;
  optimized_.reserve(parameters);
  for (const Fsdp2Unit& unit : units_) {
    if (is_other_name(unit)) continue;
    Bytes offset = 0;
    for (std::uint32_t row = unit.parameters.first; row < unit.parameters.end(); ++row) {
      if (!is_trained(row)) continue;
      const std::int64_t elements = shards_[row].bytes / size_of(types_.stored);
      optimized_.push_back({shards_[row], unit.gradient, offset, elements, unit.owner});
      offset += shards_[row].bytes;
    }
  }
}

void Fsdp2Schedule::add_parameters(ModuleWriter& modules) {
  const ShardLayout& layout = lowering_.layout;
  const std::int64_t ranks = groups_.shard.ranks;
  const std::uint32_t kept_ranks = lowering_.workload.parallel.reshard_to;
  shards_.reserve(layout.parameters.size());
  full_.reserve(layout.parameters.size());
  for (std::uint32_t row = 0; row < layout.parameters.size(); ++row) {
    const ShardedParameter& parameter = layout.parameters[row];
    const Owner owner{modules.scope(parameter.module),
                      units_[layout.unit_of_parameter[row]].owner.unit};
    const StringId name =
        lowering_.id_of(lowering_.tape_of(parameter.module).parameters[parameter.parameter].name);
    const std::int64_t elements = padded_shard_elements(parameter, ranks);
    shards_.push_back(parameter.shares ? shards_[*parameter.shares]
                                       : lowering_.buffer(elements, types_.stored, name,
                                                          Cause::parameter_shard, owner));
    const DType gathered = gathered_type(parameter);
    full_.push_back(
        lowering_.buffer(elements * ranks, gathered, name, Cause::unsharded_parameter, owner));
    if (kept_ranks > 1)
      kept_.push_back(lowering_.buffer(elements * ranks / kept_ranks, gathered, name,
                                       Cause::unsharded_parameter, owner));
    if (types_.casts_in() && (ranks == 1 || offloads()))
      casts_.push_back(lowering_.buffer(elements, gathered, name, Cause::cast_copy, owner));
    if (offloads()) {
      on_host(lowering_, shards_.back());
      loaded_.push_back(
          lowering_.buffer(elements, types_.stored, name, Cause::parameter_shard, owner));
    }
    if (!parameter.shares) lowering_.alloc(shards_.back(), lowering_.compute);
  }
  for (std::uint32_t m = 0; m < lowering_.modules(); ++m)
    for (ParameterIndex p = 0; p < lowering_.tape_of(m).parameters.size(); ++p)
      modules.set_parameter(m, p, full_[layout.row_of(m, p)]);
}

void Fsdp2Schedule::add_unit_buffers(Fsdp2Unit& unit) {
  const std::int64_t shard = unit.trained_elements;
  const std::int64_t whole = shard * groups_.shard.ranks;
  const bool repeats = lowering_.workload.train.grad_accum > 1 || !unit.twins.empty();
  const auto add = [&](std::int64_t elements, DType type, std::string_view name, Cause cause) {
    return lowering_.buffer(elements, type, name, cause, unit.owner);
  };
  if (groups_.shard.ranks > 1) {
    // Where some are float8, all are gathered as bytes.
    const DType type = has_f8(unit) ? DType::u8 : types_.gathered;
    const std::int64_t own = unit.gathered_bytes / size_of(type);
    const std::int64_t all = own * groups_.shard.ranks;
    if (casts_in(unit) && !casts_in_parts(unit))
      unit.cast = add(own, type, "all-gather input cast", Cause::cast_copy);
    if (casts_in(unit) && kept_group_.ranks > 1)
      unit.kept_cast =
          add(all / kept_group_.ranks, type, "all-gather input copy", Cause::cast_copy);
    unit.gathered = add(all, type, "all-gather output", Cause::communication_buffer);
  }
  for (EventId* event : {&unit.was_gathered, &unit.was_copied_out, &unit.was_resharded,
                         &unit.was_reduced, &unit.was_all_reduced, &unit.was_post_reduced})
    *event = lowering_.builder.event();
  if (unit.trained == 0) return;
  unit.reduce_input =
      add(whole, types_.reduced, "reduce-scatter input", Cause::communication_buffer);
  if (types_.casts_out() || repeats)
    unit.reduce_output =
        add(shard, types_.reduced, "reduce-scatter output", Cause::communication_buffer);
  if (types_.casts_out() && repeats)
    unit.cast_output = add(shard, types_.stored, "reduced gradient", Cause::cast_copy);
  unit.gradient = is_other_name(unit)
                      ? units_[unit.twins.front()].gradient
                      : add(shard, types_.stored, "sharded gradient", Cause::reduced_gradient);
  if (offloads()) {
    unit.host_gradient = on_host(
        lowering_, add(shard, types_.stored, "offloaded gradient", Cause::reduced_gradient));
    lowering_.alloc(unit.host_gradient, lowering_.compute);
  }
}

DType Fsdp2Schedule::gathered_type(const ShardedParameter& parameter) const {
  return parameter.gathered_f8 ? DType::f8e4m3 : types_.gathered;
}

bool Fsdp2Schedule::casts_in(const Fsdp2Unit& unit) const {
  return types_.casts_in() || has_f8(unit);
}

bool Fsdp2Schedule::casts_in_parts(const Fsdp2Unit& unit) const {
  return offloads() && types_.casts_in() && !has_f8(unit);
}

void Fsdp2Schedule::price(Fsdp2Unit& unit, const Fsdp2Unit* before) {
  // Repeated blocks have equal prices.
  if (before != nullptr && before->shard_elements == unit.shard_elements &&
      before->trained_elements == unit.trained_elements &&
      before->gathered_bytes == unit.gathered_bytes &&
      before->parameters.count == unit.parameters.count) {
    unit.costs = before->costs;
    return;
  }
  costs_.push_back(fsdp2_costs(lowering_, unit, types_, groups_, kept_group_));
  unit.costs = &costs_.back();
}

// Without communication gradients accumulate unsharded. In the reduce dtype they stay where
// autograd put them in the first micro-batch, so that the later ones need other buffers; otherwise
// each micro-batch's gradients are cast to, or added to, accumulators. What autograd casts is in
// accumulators with communication, too.
void Fsdp2Schedule::add_accumulators(ModuleWriter& modules) {
  const Train& train = lowering_.workload.train;
  const ShardLayout& layout = lowering_.layout;
  accumulators_.resize(layout.parameters.size());
  addends_.resize(layout.parameters.size());
  const bool accumulates = train.no_sync && train.grad_accum > 1;
  if (!accumulates && !types_.casts_gradients()) return;
  accumulates_in_place_ = accumulates && types_.reduced == types_.gradient();
  accumulates_wider_ = accumulates && !accumulates_in_place_;
  last_place_.resize(layout.parameters.size());
  for (std::uint32_t m = 0; m < lowering_.modules(); ++m)
    for (ParameterIndex p = 0; p < lowering_.tape_of(m).parameters.size(); ++p)
      last_place_[layout.row_of(m, p)] = {m, p, modules.gradient(m, p)};
  for (std::uint32_t row = 0; row < layout.parameters.size(); ++row) {
    const ShardedParameter& parameter = layout.parameters[row];
    if (!parameter.trainable) continue;
    const Owner owner{modules.scope(parameter.module),
                      units_[layout.unit_of_parameter[row]].owner.unit};
    const auto add = [&](std::string_view name) {
      return lowering_.buffer(parameter.elements, types_.reduced, name, Cause::gradient, owner);
    };
    accumulators_[row] = add(accumulates ? "accumulated gradient" : "cast gradient");
    if (!types_.casts_gradients()) continue;
    addends_[row][0] = add("cast gradient");
    if (tied_.has_shares(row)) addends_[row][1] = add("cast gradient");
  }
}

// PyTorch needs no wait here: before their memory is used again, the next reduce-scatter has waited
// for the compute stream. It costs nothing and lets validate() see at the free that it is safe.
void Fsdp2Schedule::drop_gradients() {
  if (offloads()) return;
  lowering_.wait_stream(types_.casts_out() ? all_reduce_stream_ : reduce_stream_,
                        lowering_.compute);
  for (const Fsdp2Unit& unit : units_)
    if (unit.trained > 0 && !is_other_name(unit)) lowering_.free(unit.gradient);
}

}  // namespace foregather::plan
