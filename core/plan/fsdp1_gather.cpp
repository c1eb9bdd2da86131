#include <algorithm>

#include "core/plan/fsdp1_schedule.h"
#include "core/plan/host_overhead.h"

namespace foregather::plan {

namespace overhead = host_overhead;

void Fsdp1Schedule::add_checkpoints(ModuleWriter& modules) {
  modules_ = &modules;
  first_backward_.assign(lowering_.modules(), 0);
  for (Fsdp1Unit& unit : units_) {
    const UnitPlan& plan = lowering_.layout.units[static_cast<std::size_t>(&unit - units_.data())];
    if (!has_work(unit) || plan.is_root || plan.is_leaf) continue;
    if (modules.policy(plan.first_module) != SavePolicy::reentrant) continue;
    unit.is_in_checkpoint = true;
    const auto& ops = modules.recipe(plan.first_module).backward.ops;
    const auto first = std::ranges::find(ops, Phase::backward, &RecipeOp::phase);
    first_backward_[plan.first_module] = static_cast<std::uint32_t>(first - ops.begin());
    if (!unit.is_trained && !ops.empty()) modules.keep_input(plan.first_module);
  }
}

// --- hooks ---

void Fsdp1Schedule::begin_forward() {
  if (lowering_.micro_batch == 0) free_events_.begin_section();
  for (Fsdp1Unit& unit : units_) {
    unit.is_prefetched = false;
    unit.needs_pre_forward = true;
  }
  // The all-gathers see the optimizer's update.
  lowering_.wait_stream(unshard_stream_, lowering_.compute);
  lowering_.wait_stream(pre_unshard_stream_, lowering_.compute);
  pre_forward(units_[0]);
}

void Fsdp1Schedule::before_forward(std::uint32_t module) {
  for (const std::uint32_t u : lowering_.layout.begin_with[module]) pre_forward(units_[u]);
  make_copies(module);
}

void Fsdp1Schedule::before_op(std::uint32_t module, Phase phase, std::uint32_t op) {
  if (parts_loss(module) && phase == Phase::forward && op == loss_->first) {
    end_units(module);
    if (!root_has_loss_) end_root(module);
  }
  if (phase == Phase::backward && first_backward_[module] != 0 && op == first_backward_[module])
    end_recomputation(module);
  begin_leaves(module, phase, op);
}

void Fsdp1Schedule::end_recomputation(std::uint32_t module) {
  for (const std::uint32_t u : lowering_.layout.end_with[module]) {
    Fsdp1Unit& unit = units_[u];
    if (!unit.is_in_checkpoint) continue;
    reshard_after_forward(unit);
    lowering_.builder.host_delay(overhead::kHook);
    unshard(unit);
    lowering_.wait_stream(lowering_.compute, unshard_stream_);
  }
}

void Fsdp1Schedule::after_op(std::uint32_t module, Phase phase, std::uint32_t op) {
  end_leaves(module, phase, op);
  if (parts_loss(module) && phase == Phase::backward && op == loss_->last_backward)
    reach_outputs(module);
}

void Fsdp1Schedule::after_forward(std::uint32_t module) {
  drop_unsaved_copies(module);
  if (!parts_loss(module)) end_units(module);
  if (!parts_loss(module) || root_has_loss_) end_root(module);
}

void Fsdp1Schedule::end_units(std::uint32_t module) {
  for (const std::uint32_t u : lowering_.layout.end_with[module]) post_forward(units_[u]);
}

void Fsdp1Schedule::end_root(std::uint32_t module) {
  if (lowering_.layout.units[0].last_module == module) post_forward(units_[0]);
}

// Is what comes after the root's own output (the loss) outside of it?
bool Fsdp1Schedule::root_ends_before_loss() const {
  return lowering_.layout.units[0].last_module + 1 < lowering_.modules();
}

void Fsdp1Schedule::begin_backward() {
  if (root_has_loss_) pre_backward(units_[0]);
}

// The hooks sit on the gradient of the unit's output. Where an inner unit's output is the outer
// one's, too, the inner unit's hook was registered first, and so it runs first.
void Fsdp1Schedule::before_backward(std::uint32_t module) {
  if (!parts_loss(module)) reach_outputs(module);
  if (module + 1 < lowering_.modules()) reach_inputs(module + 1);
  make_copies(module);
}

void Fsdp1Schedule::reach_outputs(std::uint32_t module) {
  for (const std::uint32_t u : lowering_.layout.end_with[module]) pre_backward(units_[u]);
  if (!root_has_loss_ && lowering_.layout.units[0].last_module == module) pre_backward(units_[0]);
}

// The order that prefetching follows is recorded in the very first forward.
bool Fsdp1Schedule::prefetches_forward() const {
  return lowering_.workload.parallel.forward_prefetch &&
         !(lowering_.first_step && lowering_.micro_batch == 0);
}

void Fsdp1Schedule::pre_forward(Fsdp1Unit& unit) {
  if (!has_work(unit)) return;
  lowering_.builder.host_delay(overhead::kHook);
  if (!unit.is_prefetched) unshard(unit);
  unit.needs_pre_forward = false;
  lowering_.wait_stream(lowering_.compute, unshard_stream_);
  if (prefetches_forward()) prefetch_forward(unit);
}

void Fsdp1Schedule::post_forward(Fsdp1Unit& unit) {
  if (!has_work(unit)) return;
  reshard_after_forward(unit);
  const auto own = static_cast<std::uint32_t>(&unit - units_.data());
  unit.forward_position = static_cast<std::uint32_t>(forward_order_.size());
  forward_order_.push_back(own);
  // An output without a gradient gets no hook (_register_pre_backward_hooks).
  unit.needs_pre_backward = !unit.is_in_checkpoint &&
                            lowering_.tape_of(lowering_.layout.units[own].last_module).has_hooks();
}

void Fsdp1Schedule::reshard_after_forward(Fsdp1Unit& unit) {
  lowering_.builder.host_delay(overhead::kHook);
  const bool is_root = &unit == units_.data();
  reshard(unit, !is_root && sharding_ == Fsdp1Sharding::full_shard && unit.is_sharded);
}

void Fsdp1Schedule::pre_backward(Fsdp1Unit& unit) {
  if (!has_work(unit)) return;
  lowering_.builder.host_delay(overhead::kHook);
  if (unit.needs_pre_backward || unit.is_in_checkpoint) {
    if (!unit.is_prefetched) unshard(unit);
    // Before the prefetch below, so that it does not include it.
    lowering_.wait_stream(lowering_.compute, unshard_stream_);
  }
  unit.needs_pre_backward = false;
  if (lowering_.workload.parallel.backward_prefetch == Prefetch::pre) prefetch_backward(unit);
}

void Fsdp1Schedule::prefetch_forward(const Fsdp1Unit& unit) {
  const auto own = static_cast<std::uint32_t>(&unit - units_.data());
  auto next = std::ranges::find(begin_order_, own) + 1;
  while (next != begin_order_.end() && !has_work(units_[*next])) ++next;
  if (next == begin_order_.end()) return;
  Fsdp1Unit& target = units_[*next];
  if (!target.needs_pre_forward || target.is_prefetched) return;
  unshard(target);
  target.is_prefetched = true;
}

void Fsdp1Schedule::prefetch_backward(const Fsdp1Unit& unit) {
  if (unit.forward_position == 0) return;
  Fsdp1Unit& target = units_[forward_order_[unit.forward_position - 1]];
  if (!target.needs_pre_backward || target.is_prefetched) return;
  unshard(target);
  target.is_prefetched = true;
}

// --- unshard and reshard ---

void Fsdp1Schedule::unshard(Fsdp1Unit& unit) {
  Lowering& low = lowering_;
  const bool gathers = unit.is_sharded && !unit.is_unsharded;
  // What is offloaded is loaded and cast also where it is gathered (_flat_param.py, pre_unshard).
  const bool casts = unit.types.casts_in() && (gathers || !unit.is_sharded || offloads());
  if (casts)
    cast_shard(unit);
  else if (gathers && offloads())
    load(unit);
  if (casts || (gathers && offloads())) low.wait_stream(unshard_stream_, pre_unshard_stream_);
  // Every unshard takes part in the limiter, also one that finds its parameters in place.
  if (is_sharded() && low.workload.parallel.limit_all_gathers) free_events_.take();
  if (gathers)
    gather(unit);
  else if (casts && unit.is_sharded)
    drop_cast(unit, unshard_stream_);
}

// _use_low_precision_shard: an offloaded shard is a temporary of the cast.
void Fsdp1Schedule::cast_shard(Fsdp1Unit& unit) {
  Lowering& low = lowering_;
  if (!unit.is_cast) low.alloc(unit.cast, pre_unshard_stream_);
  unit.is_cast = true;
  if (offloads()) load(unit);
  scratch_.assign({reads(offloads() ? unit.loaded : unit.shard), writes(unit.cast)});
  low.launch({OpKind::cast, Role::cast, pre_unshard_stream_, unit.costs->cast_in, {}}, unit.owner,
             scratch_);
  if (offloads()) low.free(unit.loaded);
}

void Fsdp1Schedule::drop_cast(Fsdp1Unit& unit, StreamId used_by) {
  lowering_.builder.record_stream(unit.cast.storage, used_by);
  lowering_.free(unit.cast);
  unit.is_cast = false;
}

void Fsdp1Schedule::gather(Fsdp1Unit& unit) {
  Lowering& low = lowering_;
  low.builder.host_delay(overhead::kUnshard);
  low.alloc(unit.full, unshard_stream_);
  const Buffer& shard = offloads() ? unit.loaded : unit.shard;
  scratch_.assign({reads(unit.types.casts_in() ? unit.cast : shard), writes(unit.full)});
  low.launch({OpKind::all_gather, Role::gather, unshard_stream_, unit.costs->gather,
              groups_.shard.communicator},
             unit.owner, scratch_);
  if (unit.types.casts_in()) {
    drop_cast(unit, unshard_stream_);
  } else if (offloads()) {
    low.builder.record_stream(unit.loaded.storage, unshard_stream_);
    low.free(unit.loaded);
  }
  low.builder.host_delay(overhead::kUseViews);
  unit.is_unsharded = true;
}

void Fsdp1Schedule::reshard(Fsdp1Unit& unit, bool frees) {
  Lowering& low = lowering_;
  if (frees && unit.is_unsharded) {
    low.builder.record_stream(unit.full.storage, low.compute);
    low.free(unit.full);
    unit.is_unsharded = false;
  }
  if (frees && low.workload.parallel.limit_all_gathers) free_events_.put();
  // NO_SHARD: the low-precision parameter is made anew for each use.
  if (unit.is_cast) drop_cast(unit, low.compute);
  unit.is_prefetched = false;
}

}  // namespace foregather::plan
