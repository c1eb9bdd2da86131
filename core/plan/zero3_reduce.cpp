#include <algorithm>

#include "core/plan/host_overhead.h"
#include "core/plan/zero3_schedule.h"

namespace foregather::plan {

void Zero3Schedule::move(OpKind kind, Role role, StreamId stream, const Parameter& parameter,
                         const Buffer& from, const Buffer& to) {
  scratch_.assign({reads(from), writes(to)});
  const DType type = lowering_.builder.graph().at(to.tensor).dtype;
  lowering_.launch({kind, role, stream, lowering_.copy_cost(kind, type, from.bytes, to.bytes), {}},
                   parameter.owner, scratch_);
}

void Zero3Schedule::add_to(StreamId stream, const Parameter& parameter, const Buffer& from,
                           const Buffer& to) {
  scratch_.assign({reads(from), updates(to)});
  const DType type = lowering_.builder.graph().at(to.tensor).dtype;
  lowering_.launch({OpKind::elementwise,
                    Role::accumulate,
                    stream,
                    lowering_.copy_cost(OpKind::elementwise, type, from.bytes + to.bytes, to.bytes),
                    {}},
                   parameter.owner, scratch_);
}

// --- gradients ---

// A tied parameter has one AccumulateGrad node: its hook fires when the last share is there.
void Zero3Schedule::gradient_ready(std::uint32_t module, ParameterIndex index,
                                   const Buffer& gradient) {
  const std::uint32_t row = lowering_.layout.row_of(module, index);
  const Parameter& parameter = parameters_[row];
  const auto whole = tied_.take(row, gradient, parameter.owner);
  if (!whole) return;
  const std::int64_t most = lowering_.workload.zero.reduce_bucket_size;
  if (bucket_elements_ > 0 && bucket_elements_ + parameter.elements > most) flush();
  add_to_bucket(row, *whole);
}

void Zero3Schedule::add_to_bucket(std::uint32_t row, const Buffer& gradient) {
  const Parameter& parameter = parameters_[row];
  lowering_.builder.host_delay(host_overhead::kZeroGradient);
  if (reduce_stream_ != lowering_.compute) lowering_.wait_stream(reduce_stream_, lowering_.compute);
  const std::int64_t most = lowering_.workload.zero.reduce_bucket_size;
  Pending pending{row, gradient, false};
  if (bucket_.storage && bucket_elements_ + parameter.elements <= most) {
    const Bytes offset = bucket_elements_ * size_of(reduced_);
    const Bytes bytes = parameter.elements * size_of(reduced_);
    scratch_.assign({reads(gradient), writes(bucket_, offset, bytes)});
    lowering_.launch({OpKind::copy,
                      Role::copy_in,
                      reduce_stream_,
                      lowering_.copy_cost(OpKind::copy, reduced_, gradient.bytes, bytes),
                      {}},
                     parameter.owner, scratch_);
    lowering_.builder.record_stream(gradient.storage, reduce_stream_);
    lowering_.free(gradient);
    pending.gradient = slice(lowering_, bucket_, bucket_elements_, parameter.elements, reduced_);
    pending.is_in_bucket = true;
  }
  pending_.push_back(pending);
  bucket_elements_ += parameter.elements;
}

// --- reduction ---

// reduce_scatter_coalesced: what goes to one rank is put together.
Buffer Zero3Schedule::concatenate(const std::vector<Buffer>& gradients) {
  Rows rows;
  std::int64_t elements = 0;
  for (const Pending& pending : pending_) {
    rows.push_back(pending.row);
    elements += parameters_[pending.row].shard * world_.ranks;
  }
  const bool in_place = pending_.size() == 1 && parameters_[rows[0]].elements == elements;
  if (in_place) return gradients.front();
  Buffer& flat = concatenated_[rows];
  if (!flat.storage)
    flat = lowering_.buffer(elements, reduced_, "reduce-scatter input", Cause::communication_buffer,
                            lowering_.owners[0]);
  lowering_.alloc(flat, reduce_stream_);
  scratch_.clear();
  Bytes read = 0;
  for (const Buffer& gradient : gradients) {
    scratch_.push_back(reads(gradient));
    read += gradient.bytes;
  }
  scratch_.push_back(writes(flat));
  lowering_.launch({OpKind::copy,
                    Role::copy_in,
                    reduce_stream_,
                    lowering_.copy_cost(OpKind::copy, reduced_, read, flat.bytes),
                    {}},
                   lowering_.owners[0], scratch_);
  return flat;
}

void Zero3Schedule::flush() {
  if (pending_.empty()) return;
  lowering_.builder.host_delay(host_overhead::kReduce);
  reductions_.wait(lowering_.builder);
  if (bucket_.storage && pending_.front().is_in_bucket && !lowering_.workload.zero.reduce_scatter)
    reduce_bucket();
  else
    reduce_scatter_pending();
  pending_.clear();
  bucket_elements_ = 0;
  reductions_.record(lowering_.builder, reduce_stream_);
}

// Gradients that are not in the bucket may have another dtype than the reduction.
std::vector<Buffer> Zero3Schedule::cast_pending() {
  std::vector<Buffer> gradients;
  for (const Pending& pending : pending_) {
    const Parameter& parameter = parameters_[pending.row];
    gradients.push_back(pending.gradient);
    if (pending.is_in_bucket || reduced_ == type_) continue;
    lowering_.alloc(parameter.cast_gradient, reduce_stream_);
    move(OpKind::cast, Role::cast, reduce_stream_, parameter, pending.gradient,
         parameter.cast_gradient);
    gradients.back() = parameter.cast_gradient;
  }
  return gradients;
}

// The parts of what this rank received; the casts of all are made before the first is copied.
std::vector<Buffer> Zero3Schedule::parts_of(const Buffer& flat) {
  std::vector<Buffer> parts;
  std::int64_t offset = lowering_.builder.graph().at(flat.tensor).offset / size_of(reduced_);
  for (const Pending& pending : pending_) {
    const Parameter& parameter = parameters_[pending.row];
    parts.push_back(slice(lowering_, flat, offset, parameter.shard, reduced_));
    offset += parameter.shard;
    if (reduced_ == type_) continue;
    lowering_.alloc(parameter.cast_partition, reduce_stream_);
    move(OpKind::cast, Role::cast, reduce_stream_, parameter, parts.back(),
         parameter.cast_partition);
    parts.back() = parameter.cast_partition;
  }
  return parts;
}

void Zero3Schedule::reduce_scatter_pending() {
  Lowering& low = lowering_;
  std::sort(pending_.begin(), pending_.end(),
            [](const Pending& a, const Pending& b) { return a.row < b.row; });
  const std::vector<Buffer> gradients = cast_pending();
  const Buffer flat = concatenate(gradients);
  scratch_.assign({updates(flat)});
  low.launch({OpKind::elementwise,
              Role::pre_scale,
              reduce_stream_,
              low.copy_cost(OpKind::elementwise, reduced_, flat.bytes, flat.bytes),
              {}},
             low.owners[0], scratch_);
  if (!is_alone()) {
    scratch_.assign({reads(flat), writes(flat, 0, flat.bytes / world_.ranks)});
    low.launch({OpKind::reduce_scatter, Role::reduce, reduce_stream_,
                low.collective_cost(OpKind::reduce_scatter, reduced_, flat.bytes, world_.group),
                world_.communicator},
               low.owners[0], scratch_);
  }
  const std::vector<Buffer> parts = parts_of(flat);
  for (std::size_t i = 0; i < pending_.size(); ++i) collect(parameters_[pending_[i].row], parts[i]);
  if (flat.storage != gradients.front().storage) low.free(flat);
  for (const Pending& pending : pending_) {
    const Parameter& parameter = parameters_[pending.row];
    if (reduced_ != type_) low.free(parameter.cast_partition);
    if (pending.is_in_bucket) continue;
    if (reduced_ != type_) low.free(parameter.cast_gradient);
    low.builder.record_stream(pending.gradient.storage, reduce_stream_);
    low.free(pending.gradient);
  }
}

// reduce_scatter = false: the bucket is all-reduced in place, then multiplied into a new buffer.
void Zero3Schedule::reduce_bucket() {
  Lowering& low = lowering_;
  const Buffer used = slice(low, bucket_, 0, bucket_elements_, reduced_);
  const auto scale = [&](const Buffer& buffer) {
    return low.copy_cost(OpKind::elementwise, reduced_, buffer.bytes, buffer.bytes);
  };
  scratch_.assign({updates(used)});
  low.launch({OpKind::elementwise, Role::pre_scale, reduce_stream_, scale(used), {}}, low.owners[0],
             scratch_);
  if (!is_alone())
    low.launch({OpKind::all_reduce, Role::reduce, reduce_stream_,
                low.collective_cost(OpKind::all_reduce, reduced_, used.bytes, world_.group),
                world_.communicator},
               low.owners[0], scratch_);
  Rows rows;
  for (const Pending& pending : pending_) rows.push_back(pending.row);
  Buffer& product = concatenated_[rows];
  if (!product.storage)
    product = low.buffer(bucket_elements_, reduced_, "reduced gradients",
                         Cause::communication_buffer, low.owners[0]);
  low.alloc(product, reduce_stream_);
  scratch_.assign({reads(used), writes(product)});
  low.launch({OpKind::elementwise, Role::post_scale, reduce_stream_, scale(used), {}},
             low.owners[0], scratch_);
  std::int64_t offset = 0;
  for (const Pending& pending : pending_) {
    const Parameter& parameter = parameters_[pending.row];
    Buffer part =
        slice(low, product, offset, std::min(parameter.shard, parameter.elements), reduced_);
    offset += parameter.elements;
    if (reduced_ != type_) {
      low.alloc(parameter.cast_partition, reduce_stream_);
      move(OpKind::cast, Role::cast, reduce_stream_, parameter, part, parameter.cast_partition);
      part = parameter.cast_partition;
    }
    collect(parameters_[pending.row], part);
    if (reduced_ != type_) low.free(parameter.cast_partition);
  }
  low.free(product);
}

// partition_grads: into, or added to, this rank's part of all gradients.
void Zero3Schedule::collect(Parameter& parameter, const Buffer& reduced) {
  Lowering& low = lowering_;
  if (offloads_optimizer()) return offload_gradient(parameter, reduced);
  if (low.micro_batch == 0) {
    move(OpKind::copy, Role::copy_out, reduce_stream_, parameter, reduced,
         parameter.gradient_partition);
    return;
  }
  const Buffer* from = &reduced;
  if (accumulated_ != type_) {
    low.alloc(parameter.added, reduce_stream_);
    move(OpKind::cast, Role::cast, reduce_stream_, parameter, reduced, parameter.added);
    from = &parameter.added;
  }
  add_to(reduce_stream_, parameter, *from, parameter.gradient_partition);
  if (from == &parameter.added) low.free(parameter.added);
}

// The partition of gradients is pinned host memory: copied there, and back at once, for the norm
// and the copy into the optimizer's fp32 gradient, for which the host waits.
void Zero3Schedule::offload_gradient(Parameter& parameter, const Buffer& reduced) {
  Lowering& low = lowering_;
  const auto index = static_cast<std::size_t>(&parameter - parameters_.data());
  const Buffer& on_device = parameter.added;
  const auto to_device = [&] {
    low.alloc(on_device, reduce_stream_);
    move(OpKind::host_to_device, Role::offload, reduce_stream_, parameter,
         parameter.gradient_partition, on_device);
  };
  const auto to_host = [&](const Buffer& from) {
    move(OpKind::device_to_host, Role::offload, reduce_stream_, parameter, from,
         parameter.gradient_partition);
  };
  if (low.micro_batch == 0) {
    to_host(reduced);
    to_device();
  } else {
    to_device();
    add_to(reduce_stream_, parameter, reduced, on_device);
    to_host(on_device);
  }
  if (low.is_last_micro_batch()) {
    const Buffer& doubled = norm_doubles_[index];
    low.alloc(doubled, reduce_stream_);
    move(OpKind::cast, Role::clip, reduce_stream_, parameter, on_device, doubled);
    scratch_.assign({updates(doubled)});
    low.launch({OpKind::reduction,
                Role::clip,
                reduce_stream_,
                low.copy_cost(OpKind::reduction, DType::f64, doubled.bytes, 8),
                {}},
               parameter.owner, scratch_);
    low.free(doubled);
    const Buffer& target = update_->host_gradient(parameter.place.sub_group);
    const Buffer view =
        slice(low, target, parameter.place.offset, parameter.shard, low.workload.train.master);
    move(OpKind::device_to_host, Role::offload, reduce_stream_, parameter, on_device, view);
    low.builder.host_wait_stream(reduce_stream_);
  }
  low.free(on_device);
}

void Zero3Schedule::end_backward() {
  flush();
  lowering_.builder.host_wait_stream(reduce_stream_);
  awaits_.recorded = 0;
  reductions_.recorded = 0;
  leave(root_submodule_);
}

}  // namespace foregather::plan
