#include "core/plan/fsdp2_schedule.h"
#include "core/plan/host_overhead.h"

namespace foregather::plan {

namespace overhead = host_overhead;

// --- hooks ---

void Fsdp2Schedule::begin_forward() {
  // The all-gathers see the optimizer's update.
  lowering_.wait_stream(copy_in_stream_, lowering_.compute);
  lowering_.wait_stream(gather_stream_, lowering_.compute);
  pre_forward(units_[0]);
}

void Fsdp2Schedule::before_forward(std::uint32_t module) {
  for (const std::uint32_t u : lowering_.layout.begin_with[module]) pre_forward(units_[u]);
  if (copies_) copies_->before_forward(module);
}

void Fsdp2Schedule::before_op(std::uint32_t module, Phase phase, std::uint32_t op) {
  if (phase != Phase::forward || op != loss_->first) return;
  end_units(module);
  if (!root_has_loss_) end_root(module);
}

void Fsdp2Schedule::after_op(std::uint32_t module, Phase phase, std::uint32_t op) {
  if (phase == Phase::backward && op == loss_->last_backward) reach_outputs(module);
}

void Fsdp2Schedule::after_forward(std::uint32_t module) {
  if (copies_) copies_->after_forward(module);
  if (!acts_between_ops(module)) end_units(module);
  if (!acts_between_ops(module) || root_has_loss_) end_root(module);
}

void Fsdp2Schedule::end_forward() {
  if (copies_) copies_->end_forward();
}

void Fsdp2Schedule::end_units(std::uint32_t module) {
  for (const std::uint32_t u : lowering_.layout.end_with[module]) post_forward(units_[u]);
}

void Fsdp2Schedule::end_root(std::uint32_t module) {
  if (lowering_.layout.units[0].last_module != module) return;
  post_forward(units_[0]);
  flush_held_gather();
}

void Fsdp2Schedule::begin_backward() {
  if (accumulates_in_place_ && !types_.casts_gradients())
    for (std::size_t row = 0; row < last_place_.size(); ++row) {
      if (tied_.makes_sum(static_cast<std::uint32_t>(row))) continue;
      const LastPlace& place = last_place_[row];
      if (copies_ && copies_->has(place.module, place.index)) continue;
      modules_->set_gradient(place.module, place.index,
                             lowering_.micro_batch == 0 ? accumulators_[row] : place.gradient);
    }
  for (Fsdp2Unit& unit : units_) unit.is_reduced = false;
  if (root_has_loss_) pre_backward(units_[0]);
}

// As in Fsdp1Schedule.
bool Fsdp2Schedule::root_ends_before_loss() const {
  return lowering_.layout.units[0].last_module + 1 < lowering_.modules();
}

// As in Fsdp1Schedule, an inner unit's hook runs first where both have one output.
void Fsdp2Schedule::before_backward(std::uint32_t module) {
  if (!acts_between_ops(module)) reach_outputs(module);
  if (copies_) copies_->before_backward(module);
}

void Fsdp2Schedule::reach_outputs(std::uint32_t module) {
  for (const std::uint32_t u : lowering_.layout.end_with[module]) pre_backward(units_[u]);
  if (!root_has_loss_ && lowering_.layout.units[0].last_module == module) pre_backward(units_[0]);
}

void Fsdp2Schedule::pre_forward(Fsdp2Unit& unit) {
  if (!has_work(unit)) return;
  lowering_.builder.host_delay(overhead::kHook);
  unshard(unit);
  wait_for_unshard(unit, true);
  if (lowering_.workload.parallel.forward_prefetch) prefetch_forward(unit);
}

void Fsdp2Schedule::post_forward(Fsdp2Unit& unit) {
  if (!has_work(unit)) return;
  lowering_.builder.host_delay(overhead::kHook);
  if (unit.reshards) {
    if (kept_group_.ranks > 1)
      keep_part(unit);
    else
      reshard(unit);
  }
  unit.forward_positions.push_back(static_cast<std::uint32_t>(forward_order_.size()));
  forward_order_.push_back(static_cast<std::uint32_t>(&unit - units_.data()));
}

void Fsdp2Schedule::pre_backward(Fsdp2Unit& unit) {
  if (!has_work(unit)) return;
  lowering_.builder.host_delay(overhead::kHook);
  unshard(unit);
  wait_for_unshard(unit, false);
  if (lowering_.workload.parallel.backward_prefetch == Prefetch::pre) prefetch_backward(unit);
}

void Fsdp2Schedule::prefetch_forward(const Fsdp2Unit& unit) {
  const auto own = static_cast<std::size_t>(&unit - units_.data());
  if (own == 0) return;
  const std::size_t depth = lowering_.workload.parallel.forward_prefetch_depth;
  for (std::size_t next = own + 1; next <= own + depth && next < units_.size(); ++next)
    if (has_work(units_[next])) unshard(units_[next]);
}

void Fsdp2Schedule::prefetch_backward(Fsdp2Unit& unit) {
  if (unit.forward_positions.empty()) return;
  const std::uint32_t position = unit.forward_positions.back();
  unit.forward_positions.pop_back();
  // The root has no explicit list: it prefetches one unit, as units without such a list do.
  const bool is_root = &unit == &units_.front();
  const std::uint32_t depth = is_root ? 1 : lowering_.workload.parallel.backward_prefetch_depth;
  for (std::uint32_t ahead = 1; ahead <= depth && ahead <= position; ++ahead) {
    // Prefetched after its backward, the root's predecessor would be one that is done with.
    Fsdp2Unit& before = units_[forward_order_[position - ahead]];
    if (!before.is_reduced) unshard(before);
  }
}

// --- unshard ---

void Fsdp2Schedule::gather_streams_wait(EventId event) {
  lowering_.builder.wait(copy_in_stream_, event);
  lowering_.builder.wait(gather_stream_, event);
}

void Fsdp2Schedule::unshard(Fsdp2Unit& unit) {
  if (unit.is_pending || unit.is_unsharded) return;
  if (unit.is_kept) gather_streams_wait(unit.was_resharded);
  unit.is_pending = true;
  if (groups_.shard.ranks > 1) gather(unit);
}

void Fsdp2Schedule::gather(Fsdp2Unit& unit) {
  Lowering& low = lowering_;
  const Fsdp2Costs& costs = *unit.costs;
  const bool kept = unit.is_kept;
  const bool loads = offloads() && !kept;
  const bool in_parts = loads && casts_in_parts(unit);
  const bool casts = casts_in(unit) && !in_parts;
  const std::span<const Buffer> inputs = std::span(kept       ? kept_
                                                   : in_parts ? casts_
                                                   : loads    ? loaded_
                                                              : shards_)
                                             .subspan(unit.parameters.first, unit.parameters.count);
  const Buffer& cast = kept ? unit.kept_cast : unit.cast;
  const Bytes own = unit.gathered.bytes / (kept ? kept_group_.ranks : groups_.shard.ranks);
  low.builder.host_delay(overhead::kUnshard);
  if (loads)
    for (std::uint32_t row = unit.parameters.first; row < unit.parameters.end(); ++row) {
      const Buffer loaded = load(row, copy_in_stream_);
      if (!in_parts) continue;
      cast_alone(unit, row, loaded, copy_in_stream_);
      low.free(loaded);
    }
  if (casts) {
    low.alloc(cast, copy_in_stream_);
    scratch_.clear();
    append_reads(scratch_, inputs);
    scratch_.push_back(writes(cast));
    low.launch({kept ? OpKind::copy : OpKind::cast,
                Role::cast,
                copy_in_stream_,
                kept ? costs.regather_cast_in : costs.cast_in,
                {}},
               unit.owner, scratch_);
  }
  low.alloc(unit.gathered, copy_in_stream_);
  scratch_.clear();
  if (casts)
    scratch_.push_back(reads(cast));
  else
    append_reads(scratch_, inputs);
  scratch_.push_back(writes(unit.gathered, 0, own));
  low.launch({OpKind::copy,
              Role::copy_in,
              copy_in_stream_,
              kept ? costs.regather_copy_in : costs.copy_in,
              {}},
             unit.owner, scratch_);
  if (casts) low.free(cast);
  if (loads)
    for (const Buffer& input : inputs) low.free(input);

  low.wait_stream(gather_stream_, copy_in_stream_);
  // In place: this rank's part is already there.
  low.launch(
      {OpKind::all_gather, Role::gather, gather_stream_, kept ? costs.regather : costs.gather,
       kept ? kept_group_.communicator : groups_.shard.communicator},
      unit.owner, {reads(unit.gathered, 0, own), writes(unit.gathered)});
  low.builder.record(unit.was_gathered, gather_stream_);
}

void Fsdp2Schedule::wait_for_unshard(Fsdp2Unit& unit, bool in_forward) {
  if (!unit.is_pending) return;
  const bool alone = groups_.shard.ranks == 1;
  if (in_forward) flush_held_gather();
  if (alone)
    copy_out_alone(unit);
  else
    copy_out(unit);
  if (unit.is_kept)
    for (std::uint32_t row = unit.parameters.first; row < unit.parameters.end(); ++row)
      lowering_.free(kept_[row]);
  lowering_.builder.host_delay(overhead::kUseViews +
                               unit.parameters.count * overhead::kUnshardParameter);
  unit.is_kept = false;
  unit.is_pending = false;
  unit.is_unsharded = true;
  if (alone) return;
  lowering_.builder.record(unit.was_copied_out, lowering_.compute);
  if (in_forward) {
    // The output lives until the next copy-out, so that the next copy-in needs other memory.
    held_gather_ = static_cast<std::uint32_t>(&unit - units_.data());
  } else {
    gather_streams_wait(unit.was_copied_out);
    lowering_.free(unit.gathered);
  }
}

void Fsdp2Schedule::flush_held_gather() {
  if (!held_gather_) return;
  const Fsdp2Unit& held = units_[*held_gather_];
  gather_streams_wait(held.was_copied_out);
  lowering_.free(held.gathered);
  held_gather_.reset();
}

void Fsdp2Schedule::copy_out(Fsdp2Unit& unit) {
  lowering_.builder.wait(lowering_.compute, unit.was_gathered);
  const auto parameters = std::span(full_).subspan(unit.parameters.first, unit.parameters.count);
  for (const Buffer& parameter : parameters) lowering_.alloc(parameter, lowering_.compute);
  scratch_.assign({reads(unit.gathered)});
  append_writes(scratch_, parameters);
  lowering_.launch({OpKind::copy, Role::copy_out, lowering_.compute, unit.costs->copy_out, {}},
                   unit.owner, scratch_);
}

void Fsdp2Schedule::cast_alone(const Fsdp2Unit& unit, std::uint32_t row, const Buffer& shard,
                               StreamId stream) {
  Lowering& low = lowering_;
  const Buffer& cast = casts_[row];
  low.alloc(cast, stream);
  scratch_.assign({reads(shard), writes(cast)});
  low.launch({OpKind::cast,
              Role::cast,
              stream,
              low.copy_cost(OpKind::cast, types_.gathered, shard.bytes, cast.bytes),
              {}},
             unit.owner, scratch_);
}

// In a world of one each parameter is cast and copied by itself, on the compute stream.
void Fsdp2Schedule::copy_out_alone(Fsdp2Unit& unit) {
  Lowering& low = lowering_;
  for (std::uint32_t row = unit.parameters.first; row < unit.parameters.end(); ++row) {
    const Buffer shard = offloads() ? load(row, low.compute) : shards_[row];
    if (types_.casts_in()) cast_alone(unit, row, shard, low.compute);
    const Buffer& from = types_.casts_in() ? casts_[row] : shard;
    low.alloc(full_[row], low.compute);
    scratch_.assign({reads(from), writes(full_[row])});
    low.launch({OpKind::copy,
                Role::copy_out,
                low.compute,
                low.copy_cost(OpKind::copy, types_.gathered, from.bytes, full_[row].bytes),
                {}},
               unit.owner, scratch_);
    if (types_.casts_in()) low.free(from);
    if (offloads()) low.free(shard);
  }
}

// --- reshard ---

void Fsdp2Schedule::reshard(Fsdp2Unit& unit) {
  if (!unit.is_unsharded) return;
  for (std::uint32_t row = unit.parameters.first; row < unit.parameters.end(); ++row)
    lowering_.free(full_[row]);
  unit.is_unsharded = false;
}

// An integer reshard clones this rank's larger part of each parameter before it frees the whole.
void Fsdp2Schedule::keep_part(Fsdp2Unit& unit) {
  Lowering& low = lowering_;
  for (std::uint32_t row = unit.parameters.first; row < unit.parameters.end(); ++row) {
    const Buffer& part = kept_[row];
    low.alloc(part, low.compute);
    scratch_.assign({reads(full_[row], 0, part.bytes), writes(part)});
    low.launch({OpKind::copy,
                Role::copy_out,
                low.compute,
                low.copy_cost(OpKind::copy, types_.gathered, part.bytes, part.bytes),
                {}},
               unit.owner, scratch_);
    low.free(full_[row]);
  }
  low.builder.record(unit.was_resharded, low.compute);
  unit.is_unsharded = false;
  unit.is_kept = true;
}

}  // namespace foregather::plan
