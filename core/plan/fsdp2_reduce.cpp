#include "core/plan/fsdp2_schedule.h"
#include "core/plan/host_overhead.h"

namespace foregather::plan {

namespace overhead = host_overhead;

// --- hooks ---

void Fsdp2Schedule::gradient_ready(std::uint32_t module, ParameterIndex index,
                                   const Buffer& gradient) {
  const std::uint32_t row = lowering_.layout.row_of(module, index);
  const Owner owner = units_[lowering_.layout.unit_of_parameter[row]].owner;
  const bool was_copied = copies_ && copies_->has(module, index);
  const bool casts = types_.casts_gradients();
  const Buffer wide = was_copied ? widened(module, index, gradient) : gradient;
  const Buffer share = casts ? cast_gradient(row, wide) : wide;
  Buffer& held = gradients_[row];
  const bool is_kept = accumulates_in_place_ && !held.storage;
  const auto whole =
      tied_.take(row, share, owner, casts || was_copied, is_kept ? &accumulators_[row] : nullptr);
  if (!whole) return;
  if (accumulates_wider_) return accumulate_wider(row, *whole);
  if (!held.storage) {
    held = *whole;
    return;
  }
  // Accumulation without communication.
  scratch_.assign({reads(*whole), updates(held)});
  lowering_.launch(
      {OpKind::elementwise,
       Role::accumulate,
       lowering_.compute,
       lowering_.copy_cost(OpKind::elementwise, types_.gradient(), 2 * whole->bytes, whole->bytes),
       {}},
      owner, scratch_);
  lowering_.free(*whole);
}

Buffer Fsdp2Schedule::cast_gradient(std::uint32_t row, const Buffer& gradient) {
  const std::size_t there = (gradients_[row].storage ? 1 : 0) + (tied_.is_waiting(row) ? 1 : 0);
  const Buffer& cast = there == 0 ? accumulators_[row] : addends_[row][there - 1];
  move_reduced(units_[lowering_.layout.unit_of_parameter[row]], Role::cast, gradient, cast);
  return cast;
}

void Fsdp2Schedule::move_reduced(const Fsdp2Unit& unit, Role role, const Buffer& from,
                                 const Buffer& to) {
  Lowering& low = lowering_;
  low.alloc(to, low.compute);
  scratch_.assign({reads(from), writes(to)});
  low.launch({OpKind::cast,
              role,
              low.compute,
              low.copy_cost(OpKind::cast, types_.reduced, from.bytes, to.bytes),
              {}},
             unit.owner, scratch_);
  low.free(from);
}

void Fsdp2Schedule::after_backward(std::uint32_t module) {
  if (copies_) copies_->after_backward(module);
  // The hook sits on the inputs' gradients; a unit whose input has none waits for the final
  // callback. An inner unit's hook is newer than that of the unit that begins with it.
  if (!lowering_.tape_of(module).has_input_grad) return;
  const std::vector<std::uint32_t>& units = lowering_.layout.begin_with[module];
  for (std::size_t i = units.size(); i-- > 0;)
    if (has_work(units_[units[i]])) post_backward(units_[units[i]]);
}

void Fsdp2Schedule::end_backward() {
  for (Fsdp2Unit& unit : units_) {
    if (!has_work(unit)) continue;
    if (!unit.is_reduced) post_backward(unit);
    finalize(unit);
  }
  // One stream does all that follows reductions: the last event is behind all the others.
  if (last_reduced_) {
    const EventId last = units_[*last_reduced_].was_post_reduced;
    lowering_.builder.wait(lowering_.compute, last);
    if (offloads()) lowering_.builder.host_wait(last);
    if (!held_outputs_.empty()) lowering_.builder.wait(reduce_stream_, last);
  }
  last_reduced_.reset();
  for (const Buffer& output : held_outputs_) lowering_.free(output);
  held_outputs_.clear();
  drain_reduce_inputs(0);
  forward_order_.clear();
  for (Fsdp2Unit& unit : units_) unit.forward_positions.clear();
  if (lowering_.is_unsynchronised()) {
    has_accumulated_ = true;
  } else if (lowering_.is_last_micro_batch()) {
    has_accumulated_ = false;
    for (Fsdp2Unit& unit : units_) unit.has_gradient = false;
  }
}

// PyTorch holds the part of a unit without a backward until the next forward makes another one:
// here it goes where the unit is resharded.
void Fsdp2Schedule::finalize(Fsdp2Unit& unit) {
  if (unit.is_pending && groups_.shard.ranks > 1) {  // a prefetch that nobody waited for
    lowering_.builder.wait(lowering_.compute, unit.was_gathered);
    lowering_.builder.wait(copy_in_stream_, unit.was_gathered);
    lowering_.free(unit.gathered);
  }
  unit.is_pending = false;
  if (!unit.is_kept || !reshards_after_backward()) return;
  for (std::uint32_t row = unit.parameters.first; row < unit.parameters.end(); ++row)
    lowering_.free(kept_[row]);
  unit.is_kept = false;
}

bool Fsdp2Schedule::reshards_after_backward() const {
  return lowering_.workload.parallel.reshard_after_backward || lowering_.is_last_micro_batch();
}

void Fsdp2Schedule::post_backward(Fsdp2Unit& unit) {
  unit.is_reduced = true;
  lowering_.builder.host_delay(overhead::kHook);
  if (reshards_after_backward()) reshard(unit);
  if (lowering_.workload.parallel.backward_prefetch == Prefetch::post) prefetch_backward(unit);
  if (lowering_.is_unsynchronised()) return;
  // The compute stream waits for the oldest reduce-scatter before its input is dropped.
  drain_reduce_inputs(lowering_.workload.parallel.reduce_buffers - 1);
  if (unit.trained == 0) return;
  lowering_.builder.host_delay(overhead::kReduce + unit.trained * overhead::kReduceParameter);
  reduce(unit);
}

// --- accumulation without communication ---

// Where a gradient is made: the first is cast, later ones are added to it as they are
// (_set_unsharded_grad_dtypes).
void Fsdp2Schedule::accumulate_wider(std::uint32_t row, const Buffer& gradient) {
  Lowering& low = lowering_;
  const Fsdp2Unit& unit = units_[low.layout.unit_of_parameter[row]];
  const Buffer& sum = accumulators_[row];
  if (!has_accumulated_) return move_reduced(unit, Role::accumulate, gradient, sum);
  scratch_.assign({reads(gradient), updates(sum)});
  low.launch(
      {OpKind::elementwise,
       Role::accumulate,
       low.compute,
       low.copy_cost(OpKind::elementwise, types_.reduced, gradient.bytes + sum.bytes, sum.bytes),
       {}},
      unit.owner, scratch_);
  low.free(gradient);
}

// --- reduction ---

void Fsdp2Schedule::drain_reduce_inputs(std::size_t most) {
  while (held_inputs_.size() > most) {
    const Fsdp2Unit& oldest = units_[held_inputs_.front()];
    held_inputs_.pop_front();
    lowering_.builder.wait(lowering_.compute, oldest.was_reduced);
    lowering_.free(oldest.reduce_input);
  }
}

void Fsdp2Schedule::fill_reduce_input(Fsdp2Unit& unit) {
  Lowering& low = lowering_;
  std::vector<Buffer>& from = accumulates_wider_ ? accumulators_ : gradients_;
  low.alloc(unit.reduce_input, low.compute);
  scratch_.clear();
  for (std::uint32_t row = unit.parameters.first; row < unit.parameters.end(); ++row)
    if (is_trained(row) && from[row].storage) scratch_.push_back(reads(from[row]));
  scratch_.push_back(writes(unit.reduce_input));
  low.launch({OpKind::copy, Role::copy_in, low.compute, unit.costs->gradient_copy_in, {}},
             unit.owner, scratch_);
  for (std::uint32_t row = unit.parameters.first; row < unit.parameters.end(); ++row) {
    if (!is_trained(row)) continue;
    low.free(from[row]);
    gradients_[row] = {};
  }
}

void Fsdp2Schedule::reduce(Fsdp2Unit& unit) {
  Lowering& low = lowering_;
  fill_reduce_input(unit);
  low.wait_stream(reduce_stream_, low.compute);
  const bool adds = unit.has_gradient;
  if (offloads()) unit.has_gradient = false;  // on the device
  // The output becomes the gradient where nothing is cast and no gradient is there yet.
  const bool becomes_gradient = !types_.casts_out() && !unit.has_gradient;
  const Buffer& output = becomes_gradient ? unit.gradient : unit.reduce_output;
  low.alloc(output, reduce_stream_);
  const StreamId stream = communicate(unit, output);
  collect(unit, output, stream);
  if (offloads()) unload(unit, stream, adds);
  low.builder.record(unit.was_post_reduced, stream);
  last_reduced_ = static_cast<std::uint32_t>(&unit - units_.data());
  if (offloads() && types_.casts_out()) low.free(unit.gradient);
  if (!becomes_gradient || offloads()) drop_reduced(output);
  unit.has_gradient = true;
  for (const std::uint32_t twin : unit.twins) units_[twin].has_gradient = true;
  held_inputs_.push_back(static_cast<std::uint32_t>(&unit - units_.data()));
}

StreamId Fsdp2Schedule::communicate(Fsdp2Unit& unit, const Buffer& output) {
  Lowering& low = lowering_;
  const Fsdp2Costs& costs = *unit.costs;
  const auto scale = [&](Role role, const Buffer& buffer, CostId cost, StreamId stream) {
    scratch_.assign({updates(buffer)});
    low.launch({OpKind::elementwise, role, stream, cost, {}}, unit.owner, scratch_);
  };
  if (types_.scales()) scale(Role::pre_scale, unit.reduce_input, costs.pre_scale, reduce_stream_);
  scratch_.assign({reads(unit.reduce_input), writes(output)});
  if (groups_.shard.ranks > 1)
    low.launch(
        {OpKind::reduce_scatter, Role::reduce, reduce_stream_, costs.reduce, reduce_communicator_},
        unit.owner, scratch_);
  else
    low.launch({OpKind::copy, Role::reduce, reduce_stream_, costs.local_reduce, {}}, unit.owner,
               scratch_);
  low.builder.record(unit.was_reduced, reduce_stream_);
  StreamId stream = reduce_stream_;
  if (groups_.replicate.ranks > 1) {
    stream = all_reduce_stream_;
    low.wait_stream(stream, reduce_stream_);
    scratch_.assign({updates(output)});
    low.launch({OpKind::all_reduce, Role::reduce, stream, costs.all_reduce,
                groups_.replicate.communicator},
               unit.owner, scratch_);
    low.builder.record(unit.was_all_reduced, stream);
  }
  if (types_.scales()) scale(Role::post_scale, output, costs.post_scale, stream);
  return stream;
}

void Fsdp2Schedule::collect(Fsdp2Unit& unit, const Buffer& output, StreamId stream) {
  Lowering& low = lowering_;
  if (!types_.casts_out()) {
    if (unit.has_gradient) add_to_gradient(unit, output, stream);
    return;
  }
  const Buffer& cast = unit.has_gradient ? unit.cast_output : unit.gradient;
  low.alloc(cast, stream);
  scratch_.assign({reads(output), writes(cast)});
  low.launch({OpKind::cast, Role::cast, stream, unit.costs->cast_out, {}}, unit.owner, scratch_);
  if (!unit.has_gradient) return;
  add_to_gradient(unit, cast, stream);
  low.free(cast);
}

void Fsdp2Schedule::add_to_gradient(Fsdp2Unit& unit, const Buffer& from, StreamId stream) {
  Bytes offset = 0;
  for (std::uint32_t row = unit.parameters.first; row < unit.parameters.end(); ++row) {
    if (!is_trained(row)) continue;
    const Bytes bytes = shards_[row].bytes;
    scratch_.assign({reads(from, offset, bytes),
                     AccessedTensor{unit.gradient.tensor, Access::accumulate, offset, bytes}});
    lowering_.launch({OpKind::elementwise,
                      Role::accumulate,
                      stream,
                      lowering_.copy_cost(OpKind::elementwise, types_.stored, 2 * bytes, bytes),
                      {}},
                     unit.owner, scratch_);
    offset += bytes;
  }
}

// Each group holds what it all-reduced until backward has ended
// (FSDPParamGroup::_all_reduce_state).
void Fsdp2Schedule::drop_reduced(const Buffer& output) {
  if (groups_.replicate.ranks > 1)
    held_outputs_.push_back(output);
  else
    lowering_.free(output);
}

}  // namespace foregather::plan
