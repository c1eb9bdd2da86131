#include <algorithm>

#include "core/plan/fsdp1_schedule.h"
#include "core/plan/optimizer_step.h"

namespace foregather::plan {

namespace {

// DefaultState._get_gradient_predivide_factor: doubled while it divides the world and what is left
// of the world is larger.
std::int64_t predivide_factor(std::int64_t world) {
  std::int64_t factor = 1;
  while (world % factor == 0 && world / factor > factor) factor *= 2;
  return factor;
}

// May the limiter's queue hold an event that is older than its slot's latest recording? It never
// holds more than four: each unit's unshard takes one out (asserted by FreeEventQueue). But units
// without a backward that stay gathered are all freed at its end, with no unshard between.
bool has_few_events(const Lowering& lowering) {
  return lowering.layout.units.size() <= 4 ||
         lowering.workload.train.trainable.kind != Trainable::Kind::all;
}

}  // namespace

Fsdp1Schedule::Fsdp1Schedule(Lowering& lowering)
    : lowering_(lowering),
      tied_(lowering),
      loss_(loss_place(lowering)),
      free_events_(lowering, has_few_events(lowering)) {
  root_has_loss_ = (!loss_ || lowering.workload.train.loss_in_call) && !root_ends_before_loss();
  const Parallel& parallel = lowering.workload.parallel;
  types_ = {lowering.workload.train.master, parallel.param_dtype, parallel.reduce_dtype};
  sharding_ = parallel.shard_size == 1 ? Fsdp1Sharding::no_shard : parallel.sharding;
  GraphBuilder& builder = lowering.builder;
  if (sharding_ == Fsdp1Sharding::no_shard) {
    world_ = make_group(builder, "world", parallel.world_size, 1, lowering.workload);
  } else {
    groups_ = make_shard_groups(builder, lowering.workload);
    if (groups_.shard.ranks > 1) norm_.push_back(groups_.shard.communicator);
  }
  pre_factor_ = predivide_factor(parallel.world_size);
  post_factor_ = static_cast<double>(parallel.world_size) / static_cast<double>(pre_factor_);
  const bool hybrid = groups_.replicate.ranks > 1;
  const std::int32_t priority = hybrid && parallel.limit_all_gathers ? -1 : 0;
  unshard_stream_ = builder.stream("unshard", priority);
  pre_unshard_stream_ = builder.stream("pre_unshard", priority);
  post_backward_stream_ = builder.stream("post_backward", priority);
  all_reduce_stream_ = hybrid ? builder.stream("all_reduce") : post_backward_stream_;
  add_units();
}

void Fsdp1Schedule::add_units() {
  units_.resize(lowering_.layout.units.size());
  lowering_.owners.assign(units_.size(), lowering_.root);
  for (std::size_t u = 0; u < units_.size(); ++u) {
    Fsdp1Unit& unit = units_[u];
    const UnitPlan& plan = lowering_.layout.units[u];
    unit.parameters = plan.parameters;
    unit.is_alone = plan.is_alone;
    unit.is_leaf = plan.is_leaf;
    unit.is_sharded = is_sharded() && !plan.is_alone;
    if (!has_work(unit)) continue;
    unit.is_trained =
        std::ranges::any_of(lowering_.layout.parameters_of(plan), &ShardedParameter::trainable);
    unit.is_unused = !unit.is_trained && std::ranges::any_of(lowering_.layout.parameters_of(plan),
                                                             &ShardedParameter::is_unused);
    unit.types = types_;
    if (const Train& train = lowering_.workload.train;
        unit.is_trained && train.trainable.wide_adapters)
      unit.types = {trained_type(train), trained_type(train), trained_type(train)};
    describe(unit, plan);
    lowering_.owners[u] = unit.owner;
  }
}

void Fsdp1Schedule::describe(Fsdp1Unit& unit, const UnitPlan& plan) {
  const auto parameters = lowering_.layout.parameters_of(plan);
  // 16 bytes: the alignment that the compiler backend wants of a parameter's address.
  constexpr std::int64_t kAlignment = 16;
  const std::uint32_t group = unit.is_sharded ? shards(unit) : whole_group(unit).ranks;
  unit.flat = flat_parameter(
      parameters, shards(unit), group,
      lowering_.workload.parallel.use_orig_params ? kAlignment / size_of(unit.types.gathered) : 0);
  Unit row;
  row.scope = plan.is_root ? lowering_.root.scope : lowering_.builder.scope(plan.path);
  row.group = unit.is_sharded ? groups_.shard.group : whole_group(unit).group;
  for (const ShardedParameter& parameter : parameters) row.parameters += parameter.elements;
  row.padded_elements = unit.flat.padded(shards(unit));
  row.stored = unit.types.stored;
  row.gathered = unit.types.gathered;
  row.reduced = unit.types.reduced;
  row.reshard = Reshard::after_backward;
  if (!unit.is_sharded) row.reshard = Reshard::never;
  if (unit.is_sharded && sharding_ == Fsdp1Sharding::full_shard && !plan.is_root)
    row.reshard = Reshard::after_forward;
  unit.owner = {row.scope, lowering_.builder.unit(row)};
}

void Fsdp1Schedule::add_triggers() {
  std::uint32_t before = 0;  // first module of the unit before in pre-forward order
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const UnitPlan& plan = lowering_.layout.units[u];
    if (!has_work(units_[u]) || plan.is_leaf) continue;
    units_[u].trigger = plan.first_module;
    units_[u].late_trigger = units_[u].is_in_checkpoint ? plan.first_module : before;
    before = plan.first_module;
  }
}

void Fsdp1Schedule::init(ModuleWriter& modules) {
  gradients_.resize(lowering_.layout.parameters.size());
  rank_ = fullest_rank();
  const Fsdp1Unit* before = nullptr;
  for (Fsdp1Unit& unit : units_) {
    if (!has_work(unit)) continue;
    add_buffers(unit);
    if (before != nullptr && before->flat.elements == unit.flat.elements &&
        before->is_alone == unit.is_alone && before->types == unit.types) {
      unit.costs = before->costs;
    } else {
      costs_.push_back(costs_of(unit));
      unit.costs = &costs_.back();
    }
    before = &unit;
    lowering_.alloc(unit.shard, lowering_.compute);
    if (offloads())
      lowering_.alloc(unit.host_gradient, lowering_.compute);
    else
      add_optimized(unit);
  }
  add_views(modules);
  add_leaf_uses(modules);
  add_checkpoints(modules);
  add_triggers();
  for (const Fsdp1Unit& unit : units_)
    if (has_work(unit)) touch_buffers(unit);
}

// What the allocator has kept when the first step begins.
void Fsdp1Schedule::touch_buffers(const Fsdp1Unit& unit) {
  const auto touch = [this](const Buffer& buffer) {
    lowering_.alloc(buffer, lowering_.compute);
    lowering_.free(buffer);
  };
  if (unit.types.casts_in()) touch(unit.cast);
  if (!unit.is_sharded) return;
  touch(unit.full);
  if (unit.types.casts_in())
    touch(lowering_.buffer(unit.flat.padded(shards(unit)), unit.types.stored,
                           "full parameter, uncast", Cause::unsharded_parameter, unit.owner));
}

void Fsdp1Schedule::add_buffers(Fsdp1Unit& unit) {
  const Train& train = lowering_.workload.train;
  const bool sharded = unit.is_sharded;
  const bool repeats = train.grad_accum > 1;
  const std::int64_t shard = unit.flat.shard;
  const std::int64_t whole = unit.flat.padded(shards(unit));
  const auto add = [&](std::int64_t elements, DType type, std::string_view name, Cause cause) {
    return lowering_.buffer(elements, type, name, cause, unit.owner);
  };
  unit.shard = add(shard, unit.types.stored, "flat parameter", Cause::parameter_shard);
  if (unit.types.casts_in())
    unit.cast = add(shard, unit.types.gathered, "cast parameter",
                    sharded ? Cause::cast_copy : Cause::unsharded_parameter);
  if (sharded)
    unit.full = add(whole, unit.types.gathered, "full parameter", Cause::unsharded_parameter);
  unit.flat_gradient =
      add(unit.flat.elements, unit.types.gathered, "flat gradient", Cause::gradient);
  if (train.no_sync && repeats)
    unit.accumulated =
        add(unit.flat.elements, unit.types.gathered, "accumulated gradient", Cause::gradient);
  if (unit.types.casts_gradient() || (!sharded && unit.types.casts_out()))
    unit.cast_gradient =
        add(unit.flat.elements, unit.types.reduced, "cast gradient", Cause::cast_copy);
  unit.gradient = add(shard, unit.types.stored, sharded ? "sharded gradient" : "reduced gradient",
                      Cause::reduced_gradient);
  if (offloads()) {
    on_host(lowering_, unit.shard);
    unit.loaded =
        add(shard, unit.types.stored, "flat parameter on the device", Cause::parameter_shard);
    unit.host_gradient = on_host(
        lowering_, add(shard, unit.types.stored, "offloaded gradient", Cause::reduced_gradient));
  }
  if (!sharded) {
    if (unit.types.casts_out() && repeats)
      unit.other_gradient =
          add(shard, unit.types.stored, "reduced gradient", Cause::reduced_gradient);
    return;
  }
  if (whole != unit.flat.elements)
    unit.padded_gradient =
        add(whole, unit.types.reduced, "padded gradient", Cause::communication_buffer);
  if (unit.types.casts_out() || repeats)
    unit.reduced =
        add(shard, unit.types.reduced, "new sharded gradient", Cause::communication_buffer);
  if (unit.types.casts_out() && repeats)
    unit.cast_output = add(shard, unit.types.stored, "cast sharded gradient", Cause::cast_copy);
}

// The modules' parameters are views of the buffer that compute reads.
void Fsdp1Schedule::add_views(ModuleWriter& modules) {
  const ShardLayout& layout = lowering_.layout;
  std::vector<Buffer> views;
  views.reserve(layout.parameters.size());
  for (std::uint32_t row = 0; row < layout.parameters.size(); ++row) {
    const Fsdp1Unit& unit = units_[layout.unit_of_parameter[row]];
    const Buffer& whole = unit.is_sharded         ? unit.full
                          : unit.types.casts_in() ? unit.cast
                                                  : unit.shard;
    const std::int64_t elements = layout.parameters[row].elements;
    const Bytes size = size_of(unit.types.gathered);
    const Bytes offset = unit.flat.offsets[row - unit.parameters.first] * size;
    const TensorId tensor = lowering_.builder.tensor(whole.storage, unit.types.gathered,
                                                     std::span(&elements, 1), offset);
    views.push_back({whole.storage, tensor, elements * size});
  }
  for (std::uint32_t m = 0; m < lowering_.modules(); ++m)
    for (ParameterIndex p = 0; p < lowering_.tape_of(m).parameters.size(); ++p)
      modules.set_parameter(m, p, views[layout.row_of(m, p)]);
  if (autocasts()) add_copies(modules, views);
}

template <class Take>
void Fsdp1Schedule::for_each_piece(const Fsdp1Unit& unit, std::uint32_t rank,
                                   const Take& take) const {
  const std::int64_t begin = unit.is_sharded ? unit.flat.shard * rank : 0;
  const std::int64_t end = begin + unit.flat.shard;
  for (std::uint32_t i = 0; i < unit.parameters.count; ++i) {
    const ShardedParameter& parameter = lowering_.layout.parameters[unit.parameters.first + i];
    const std::int64_t first = std::max(unit.flat.offsets[i], begin);
    const std::int64_t last = std::min(unit.flat.offsets[i] + parameter.elements, end);
    if (first < last && parameter.trainable) take(first - begin, last - first);
  }
}

std::uint32_t Fsdp1Schedule::fullest_rank() const {
  const Train& train = lowering_.workload.train;
  const bool is_alike =
      train.trainable.kind == Trainable::Kind::all && train.optimizer_state != StateType::int8;
  if (is_alike || !is_sharded() || !lowering_.workload.parallel.use_orig_params) return 0;
  std::uint32_t fullest = 0;
  Bytes most = -1;
  for (std::uint32_t rank = 0; rank < groups_.shard.ranks; ++rank) {
    Bytes held = 0;
    for (const Fsdp1Unit& unit : units_)
      if (has_work(unit) && unit.is_trained)
        for_each_piece(unit, rank, [&](std::int64_t, std::int64_t elements) {
          held += bytes_of_state(train, elements);
        });
    if (held > most) fullest = rank;
    most = std::max(most, held);
  }
  return fullest;
}

void Fsdp1Schedule::add_optimized(const Fsdp1Unit& unit) {
  if (!unit.is_trained) return;
  if (!lowering_.workload.parallel.use_orig_params) {
    optimized_.push_back({unit.shard, unit.gradient, 0, unit.flat.shard, unit.owner});
    return;
  }
  const Bytes size = size_of(unit.types.stored);
  for_each_piece(unit, rank_, [&](std::int64_t first, std::int64_t elements) {
    const TensorId part = lowering_.builder.tensor(unit.shard.storage, unit.types.stored,
                                                   std::span(&elements, 1), first * size);
    optimized_.push_back({{unit.shard.storage, part, elements * size},
                          unit.gradient,
                          first * size,
                          elements,
                          unit.owner});
  });
}

Fsdp1Costs Fsdp1Schedule::costs_of(const Fsdp1Unit& unit) {
  const std::int64_t shard = unit.flat.shard;
  const std::int64_t whole = unit.flat.padded(shards(unit));
  const std::int64_t flat = unit.flat.elements;
  const Bytes stored = size_of(unit.types.stored);
  const Bytes gathered = size_of(unit.types.gathered);
  const Bytes reduced = size_of(unit.types.reduced);
  Fsdp1Costs costs;
  const auto cost = [&](OpKind kind, DType type, Bytes read, Bytes written) {
    return lowering_.copy_cost(kind, type, read, written);
  };
  costs.assemble = cost(OpKind::copy, unit.types.gathered, flat * gathered, flat * gathered);
  costs.add_gradient =
      cost(OpKind::elementwise, unit.types.stored, 2 * shard * stored, shard * stored);
  costs.pre_scale = cost(OpKind::elementwise, unit.types.reduced, whole * reduced, whole * reduced);
  costs.post_scale =
      cost(OpKind::elementwise, unit.types.reduced, shard * reduced, shard * reduced);
  if (unit.types.casts_in())
    costs.cast_in = cost(OpKind::cast, unit.types.gathered, shard * stored, shard * gathered);
  if (unit.types.casts_gradient())
    costs.cast_gradient = cost(OpKind::cast, unit.types.reduced, flat * gathered, flat * reduced);
  if (unit.padded_gradient.storage)
    costs.pad = cost(OpKind::copy, unit.types.reduced, flat * reduced, whole * reduced);
  if (unit.types.casts_out())
    costs.cast_out = cost(OpKind::cast, unit.types.stored, shard * reduced, shard * stored);
  if (unit.is_sharded) {
    costs.gather = lowering_.collective_cost(OpKind::all_gather, unit.types.gathered,
                                             whole * gathered, groups_.shard.group);
    costs.reduce = lowering_.collective_cost(OpKind::reduce_scatter, unit.types.reduced,
                                             whole * reduced, groups_.shard.group);
    if (groups_.replicate.ranks > 1)
      costs.all_reduce = lowering_.collective_cost(OpKind::all_reduce, unit.types.reduced,
                                                   shard * reduced, groups_.replicate.group);
  } else if (const ProcessGroup group = whole_group(unit); group.ranks > 1) {
    costs.all_reduce = lowering_.collective_cost(OpKind::all_reduce, unit.types.reduced,
                                                 flat * reduced, group.group);
  }
  return costs;
}

// As in Fsdp2Schedule, the wait only shows that the free is safe: PyTorch's next reduction waits
// for the compute stream before the memory is used again.
void Fsdp1Schedule::drop_gradients() {
  if (offloads()) return;
  const bool casts_out = std::ranges::any_of(units_, [this](const Fsdp1Unit& unit) {
    return has_work(unit) && unit.is_trained && unit.types.casts_out();
  });
  const StreamId owner = casts_out ? all_reduce_stream_ : post_backward_stream_;
  lowering_.wait_stream(owner, lowering_.compute);
  for (const Fsdp1Unit& unit : units_)
    if (has_work(unit) && unit.is_trained) lowering_.free(unit.gradient);
}

bool Fsdp1Schedule::first_step_differs() const {
  return lowering_.workload.parallel.forward_prefetch;
}

void Fsdp1Schedule::step_copied(std::uint32_t main_shift) { free_events_.copy_section(main_shift); }

void Fsdp1Schedule::finish() { free_events_.resolve(); }

}  // namespace foregather::plan
