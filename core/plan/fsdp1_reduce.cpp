#include "core/plan/fsdp1_schedule.h"
#include "core/plan/host_overhead.h"

namespace foregather::plan {

namespace overhead = host_overhead;

// --- hooks ---

void Fsdp1Schedule::gradient_ready(std::uint32_t module, ParameterIndex index,
                                   const Buffer& computed_gradient) {
  const Buffer gradient = cast_gradient(module, index, computed_gradient);
  const bool was_cast = gradient.storage != computed_gradient.storage;
  const std::uint32_t row = lowering_.layout.row_of(module, index);
  const Owner& owner = units_[lowering_.layout.unit_of_parameter[row]].owner;
  if (const auto whole = tied_.take(row, gradient, owner, was_cast)) gradients_[row] = *whole;
}

void Fsdp1Schedule::after_backward(std::uint32_t module) {
  drop_copies(module);
  const bool late = prefetches_forward();
  for (std::size_t u = units_.size(); u-- > 0;) {
    Fsdp1Unit& unit = units_[u];
    if (!has_work(unit) || unit.is_leaf || ends_at_input(unit)) continue;
    if ((late ? unit.late_trigger : unit.trigger) == module) post_backward(unit);
  }
}

// Where the module's output is the input of the next one, the hooks of units that end with it were
// registered first, and so they run first.
void Fsdp1Schedule::reach_inputs(std::uint32_t module) {
  if (!lowering_.tape_of(module).has_input_grad) return;
  for (const std::uint32_t u : lowering_.layout.begin_with[module])
    if (has_work(units_[u]) && ends_at_input(units_[u])) post_backward(units_[u]);
}

void Fsdp1Schedule::end_backward() {
  const bool frees = !lowering_.is_unsynchronised() || sharding_ == Fsdp1Sharding::full_shard;
  // Units whose first module has no backward: their views' gradients come last. Units that backward
  // never came to are resharded (_catch_all_reshard).
  for (std::size_t u = units_.size(); u-- > 0;)
    if (has_work(units_[u]) && !units_[u].is_done && units_[u].is_trained) post_backward(units_[u]);
  for (Fsdp1Unit& unit : units_) {
    if (!unit.is_done && (unit.is_unsharded || unit.is_cast))
      reshard(unit, unit.is_sharded && frees);
    unit.is_done = false;
  }
  if (!lowering_.is_unsynchronised()) {
    lowering_.wait_stream(lowering_.compute, post_backward_stream_);
    if (all_reduce_stream_ != post_backward_stream_)
      lowering_.wait_stream(lowering_.compute, all_reduce_stream_);
  }
  modules_->free_kept();
  forward_order_.clear();
  if (!lowering_.is_last_micro_batch()) return;
  if (offloads()) lowering_.builder.host_wait_stream(lowering_.compute);
  for (Fsdp1Unit& unit : units_) {
    if (offloads() && has_work(unit) && unit.is_trained) lowering_.free(unit.gradient);
    unit.has_gradient = false;
    unit.held = nullptr;
  }
}

void Fsdp1Schedule::post_backward(Fsdp1Unit& unit) {
  unit.is_done = true;
  if (unit.is_trained) assemble(unit);
  const bool synchronises = !lowering_.is_unsynchronised();
  lowering_.builder.host_delay(overhead::kHook);
  reshard(unit, unit.is_sharded && (synchronises || sharding_ == Fsdp1Sharding::full_shard));
  if (lowering_.workload.parallel.backward_prefetch == Prefetch::post) prefetch_backward(unit);
  if (!synchronises || !unit.is_trained) return;
  lowering_.builder.host_delay(overhead::kReduce);
  lowering_.wait_stream(post_backward_stream_, lowering_.compute);
  if (unit.is_sharded)
    reduce_sharded(unit);
  else
    reduce_whole(unit);
}

// --- the flat gradient ---

// Without casts a NO_SHARD unit's flat gradient is what the optimizer reads; it is reduced in
// place.
void Fsdp1Schedule::assemble(Fsdp1Unit& unit) {
  Lowering& low = lowering_;
  const Buffer* flat = &unit.flat_gradient;
  if (unit.held == nullptr) {
    if (!unit.is_sharded && !unit.types.casts_gradient() && !unit.types.casts_out())
      flat = &unit.gradient;
    else if (low.is_unsynchronised())
      flat = &unit.accumulated;
  }
  low.alloc(*flat, low.compute);
  scratch_.clear();
  for (std::uint32_t row = unit.parameters.first; row < unit.parameters.end(); ++row)
    if (gradients_[row].storage) scratch_.push_back(reads(gradients_[row]));
  scratch_.push_back(writes(*flat));
  low.launch({OpKind::copy, Role::copy_in, low.compute, unit.costs->assemble, {}}, unit.owner,
             scratch_);
  for (std::uint32_t row = unit.parameters.first; row < unit.parameters.end(); ++row) {
    low.free(gradients_[row]);
    gradients_[row] = {};
  }
  if (unit.held == nullptr) {
    unit.held = flat;
    return;
  }
  scratch_.assign({reads(*flat), updates(*unit.held)});
  low.launch({OpKind::elementwise,
              Role::accumulate,
              low.compute,
              low.copy_cost(OpKind::elementwise, unit.types.gathered,
                            flat->bytes + unit.held->bytes, unit.held->bytes),
              {}},
             unit.owner, scratch_);
  low.free(*flat);
}

// --- reduction, on the post_backward stream ---

void Fsdp1Schedule::cast(const Fsdp1Unit& unit, const Buffer& from, const Buffer& to, CostId cost,
                         StreamId stream) {
  lowering_.alloc(to, stream);
  scratch_.assign({reads(from), writes(to)});
  lowering_.launch({OpKind::cast, Role::cast, stream, cost, {}}, unit.owner, scratch_);
}

void Fsdp1Schedule::scale(const Fsdp1Unit& unit, Role role, const Buffer& buffer, CostId cost,
                          StreamId stream) {
  scratch_.assign({updates(buffer)});
  lowering_.launch({OpKind::elementwise, role, stream, cost, {}}, unit.owner, scratch_);
}

void Fsdp1Schedule::reduce_sharded(Fsdp1Unit& unit) {
  const Buffer& computed = *unit.held;
  unit.held = nullptr;
  if (unit.types.casts_gradient()) {
    cast(unit, computed, unit.cast_gradient, unit.costs->cast_gradient, post_backward_stream_);
    reduce_scatter(unit, unit.cast_gradient);
    lowering_.free(unit.cast_gradient);
  } else {
    reduce_scatter(unit, computed);
  }
  lowering_.builder.record_stream(computed.storage, post_backward_stream_);
  lowering_.free(computed);
  unit.has_gradient = true;
}

void Fsdp1Schedule::reduce_scatter(Fsdp1Unit& unit, const Buffer& gradient) {
  Lowering& low = lowering_;
  const Buffer* input = &gradient;
  if (unit.padded_gradient.storage) {
    input = &unit.padded_gradient;
    low.alloc(*input, post_backward_stream_);
    scratch_.assign({reads(gradient), writes(*input)});
    low.launch({OpKind::copy, Role::copy_in, post_backward_stream_, unit.costs->pad, {}},
               unit.owner, scratch_);
  }
  const bool becomes_gradient = !unit.types.casts_out() && !unit.has_gradient;
  const Buffer& output = becomes_gradient ? unit.gradient : unit.reduced;
  low.alloc(output, post_backward_stream_);
  if (pre_factor_ > 1)
    scale(unit, Role::pre_scale, *input, unit.costs->pre_scale, post_backward_stream_);
  scratch_.assign({reads(*input), writes(output)});
  low.launch({OpKind::reduce_scatter, Role::reduce, post_backward_stream_, unit.costs->reduce,
              groups_.shard.communicator},
             unit.owner, scratch_);
  StreamId stream = post_backward_stream_;
  if (groups_.replicate.ranks > 1) {
    stream = all_reduce_stream_;
    low.wait_stream(stream, post_backward_stream_);
    low.builder.record_stream(output.storage, stream);
    scratch_.assign({updates(output)});
    low.launch({OpKind::all_reduce, Role::reduce, stream, unit.costs->all_reduce,
                groups_.replicate.communicator},
               unit.owner, scratch_);
  }
  if (post_factor_ > 1) scale(unit, Role::post_scale, output, unit.costs->post_scale, stream);
  collect(unit, output, stream);
  if (offloads()) unload(unit, stream);
  if (!becomes_gradient) low.free(output);
  if (unit.padded_gradient.storage) low.free(unit.padded_gradient);
}

void Fsdp1Schedule::collect(Fsdp1Unit& unit, const Buffer& reduced, StreamId stream) {
  const Buffer* from = &reduced;
  if (unit.types.casts_out()) {
    from = unit.has_gradient ? &unit.cast_output : &unit.gradient;
    cast(unit, reduced, *from, unit.costs->cast_out, stream);
  }
  if (!unit.has_gradient) return;
  scratch_.assign({reads(*from), updates(unit.gradient)});
  lowering_.launch({OpKind::elementwise, Role::accumulate, stream, unit.costs->add_gradient, {}},
                   unit.owner, scratch_);
  if (unit.types.casts_out()) lowering_.free(*from);
}

bool Fsdp1Schedule::is_stored(const Fsdp1Unit& unit, const Buffer& gradient) const {
  return &gradient == &unit.gradient || &gradient == &unit.other_gradient;
}

// NO_SHARD: reduced in place, cast where dtypes differ. The result is the parameter's gradient, to
// which autograd adds the next micro-batch's; that sum is reduced again.
void Fsdp1Schedule::reduce_whole(Fsdp1Unit& unit) {
  Lowering& low = lowering_;
  const Buffer& computed = *unit.held;
  const Buffer* current = &computed;
  // So that the last micro-batch's ends in `gradient`.
  const bool is_other = (low.workload.train.grad_accum - 1 - low.micro_batch) % 2 == 1 &&
                        unit.types.casts_out() && !low.workload.train.no_sync;
  const Buffer& result = is_other ? unit.other_gradient : unit.gradient;
  const DType type = is_stored(unit, computed) ? unit.types.stored : unit.types.gathered;
  if (type != unit.types.reduced) {
    const Buffer& to = unit.types.casts_out() ? unit.cast_gradient : result;
    cast(unit, *current, to,
         low.copy_cost(OpKind::cast, unit.types.reduced, current->bytes, to.bytes),
         post_backward_stream_);
    current = &to;
  }
  if (pre_factor(unit) > 1)
    scale(unit, Role::pre_scale, *current, unit.costs->pre_scale, post_backward_stream_);
  if (const ProcessGroup group = whole_group(unit); group.ranks > 1) {
    scratch_.assign({updates(*current)});
    low.launch({OpKind::all_reduce, Role::reduce, post_backward_stream_, unit.costs->all_reduce,
                group.communicator},
               unit.owner, scratch_);
  }
  if (post_factor(unit) > 1)
    scale(unit, Role::post_scale, *current, unit.costs->post_scale, post_backward_stream_);
  if (unit.types.casts_out()) {
    cast(unit, *current, result, unit.costs->cast_out, post_backward_stream_);
    if (current != &computed) low.free(*current);
    current = &result;
  }
  low.builder.record_stream(computed.storage, post_backward_stream_);
  if (current != &computed) low.free(computed);
  unit.held = current;
}

}  // namespace foregather::plan
