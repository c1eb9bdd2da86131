#include <algorithm>

#include "core/plan/host_overhead.h"
#include "core/plan/zero2_schedule.h"

namespace foregather::plan {

void Zero2Schedule::copy(OpKind kind, Role role, StreamId stream, const Buffer& from,
                         const Buffer& to) {
  scratch_.assign({reads(from), writes(to)});
  const DType type = lowering_.builder.graph().at(to.tensor).dtype;
  lowering_.launch({kind, role, stream, lowering_.copy_cost(kind, type, from.bytes, to.bytes), {}},
                   lowering_.root, scratch_);
}

void Zero2Schedule::scale(Role role, const Buffer& buffer) {
  scratch_.assign({updates(buffer)});
  lowering_.launch({OpKind::elementwise,
                    role,
                    reduce_stream_,
                    lowering_.copy_cost(OpKind::elementwise, type_, buffer.bytes, buffer.bytes),
                    {}},
                   lowering_.root, scratch_);
}

// Each of the two waits for the other.
void Zero2Schedule::sync_streams() {
  if (!overlaps_) return;
  lowering_.wait_stream(reduce_stream_, lowering_.compute);
  lowering_.wait_stream(lowering_.compute, reduce_stream_);
}

// --- buckets ---

void Zero2Schedule::take_buckets() {
  if (has_buckets_) return;
  for (const Buffer& bucket : buckets_) lowering_.alloc(bucket, lowering_.compute);
  has_buckets_ = true;
  bucket_ = 0;
}

void Zero2Schedule::gradient_ready(std::uint32_t module, ParameterIndex index,
                                   const Buffer& gradient) {
  Lowering& low = lowering_;
  const std::uint32_t row = low.layout.row_of(module, index);
  const Parameter& parameter = parameters_[row];
  const auto whole = tied_.take(row, gradient, parameter.owner);
  if (!whole) return;
  const Buffer& sum = *whole;
  low.builder.host_delay(host_overhead::kZeroGradient);
  take_buckets();
  const std::int64_t most = low.workload.zero.reduce_bucket_size;
  if (bucket_elements_ + parameter.elements > most) reduce_bucket(false);
  if (parameter.elements > most) {
    large_ = sum;
  } else {
    copy(OpKind::copy, Role::copy_in, low.compute, sum,
         slice(low, buckets_[bucket_], bucket_elements_, parameter.elements, type_));
    low.free(sum);
  }
  pending_.push_back(row);
  bucket_elements_ += parameter.elements;
}

void Zero2Schedule::reduce_bucket(bool is_last) {
  Lowering& low = lowering_;
  const Buffer large = large_;
  if (!pending_.empty()) {
    low.builder.host_delay(host_overhead::kReduce);
    const Buffer used =
        large.storage ? large : slice(low, buckets_[bucket_], 0, bucket_elements_, type_);
    average(used);
    std::int64_t offset = 0;
    for (const std::uint32_t row : pending_) {
      const std::int64_t elements = parameters_[row].elements;
      if (parameters_[row].own > 0) keep(row, slice(low, used, offset, elements, type_));
      offset += elements;
    }
  }
  pending_.clear();
  bucket_elements_ = 0;
  large_ = {};
  sync_streams();
  if (is_last && overlaps_) low.builder.host_wait_device();
  low.free(large);
  if (overlaps_) bucket_ = 1 - bucket_;
}

// --- reduction ---

std::vector<Zero2Schedule::Slice> Zero2Schedule::slices() const {
  std::vector<Slice> parts;
  std::int64_t first = 0;
  for (const std::uint32_t row : pending_) {
    const Parameter& parameter = parameters_[row];
    std::int64_t at = parameter.offset;
    const std::int64_t end = at + parameter.elements;
    while (at < end) {
      const std::int64_t owner = at / partition_;
      const std::int64_t elements = std::min(end, (owner + 1) * partition_) - at;
      if (!parts.empty() && parts.back().owner == owner)
        parts.back().elements += elements;
      else
        parts.push_back({owner, first, elements});
      first += elements;
      at += elements;
    }
  }
  return parts;
}

// Into the dtype of communication, and (`back`) from it.
Buffer Zero2Schedule::for_wire(const Buffer& gradients, bool back) {
  if (reduced_ == type_) return gradients;
  const Buffer wire =
      cached(gradients.bytes / size_of(type_), reduced_, "gradients in another dtype");
  if (back) {
    copy(OpKind::cast, Role::cast, reduce_stream_, wire, gradients);
    lowering_.free(wire);
    return gradients;
  }
  lowering_.alloc(wire, reduce_stream_);
  copy(OpKind::cast, Role::cast, reduce_stream_, gradients, wire);
  return wire;
}

void Zero2Schedule::average(const Buffer& gradients) {
  sync_streams();
  if (lowering_.workload.zero.reduce_scatter) {
    scale(Role::pre_scale, gradients);
    const std::vector<Slice> parts = slices();
    if (lowering_.workload.zero.use_multi_rank_bucket_allreduce)
      all_reduce_slices(gradients, parts);
    else
      reduce_slices(gradients, parts);
    return;
  }
  const Buffer wire = for_wire(gradients, false);
  if (world_.ranks > 1) {
    scratch_.assign({updates(wire)});
    lowering_.launch(
        {OpKind::all_reduce, Role::reduce, reduce_stream_,
         lowering_.collective_cost(OpKind::all_reduce, reduced_, wire.bytes, world_.group),
         world_.communicator},
        lowering_.root, scratch_);
  }
  scale(Role::post_scale, wire);
  for_wire(gradients, true);
}

// allreduce_and_copy_with_multiple_ranks: slices are flattened (one slice is not copied), and each
// rank copies back those that it owns.
void Zero2Schedule::all_reduce_slices(const Buffer& gradients, const std::vector<Slice>& parts) {
  Lowering& low = lowering_;
  Buffer flat = gradients;
  if (parts.size() > 1) {
    flat = cached(gradients.bytes / size_of(type_), type_, "flattened gradients");
    low.alloc(flat, reduce_stream_);
    copy(OpKind::copy, Role::copy_in, reduce_stream_, gradients, flat);
  }
  const Buffer wire = for_wire(flat, false);
  if (world_.ranks > 1) {
    scratch_.assign({updates(wire)});
    low.launch({OpKind::all_reduce, Role::reduce, reduce_stream_,
                low.collective_cost(OpKind::all_reduce, reduced_, wire.bytes, world_.group),
                world_.communicator},
               low.root, scratch_);
  }
  for_wire(flat, true);
  if (parts.size() <= 1) return;
  const Bytes size = size_of(type_);
  for (const Slice& part : parts) {
    if (part.owner != 0) continue;
    scratch_.assign({reads(flat, part.first * size, part.elements * size),
                     writes(gradients, part.first * size, part.elements * size)});
    low.launch({OpKind::copy,
                Role::copy_out,
                reduce_stream_,
                low.copy_cost(OpKind::copy, type_, part.elements * size, part.elements * size),
                {}},
               low.root, scratch_);
  }
  low.free(flat);
}

// Slices of the gradients that lie one behind the other in `packed`, into it or out of it.
void Zero2Schedule::copy_slices(Role role, const Buffer& gradients, const Buffer& packed,
                                const std::vector<Slice>& parts) {
  const Bytes size = size_of(type_);
  Bytes at = 0;
  scratch_.clear();
  for (const Slice& part : parts) {
    const Bytes bytes = part.elements * size;
    const AccessedTensor spread = reads(gradients, part.first * size, bytes);
    const AccessedTensor dense = reads(packed, at, bytes);
    at += bytes;
    for (AccessedTensor access : {spread, dense}) {
      const bool is_target = (role == Role::copy_in) == (access.tensor == packed.tensor);
      if (is_target) access.mode = Access::write;
      scratch_.push_back(access);
    }
  }
  lowering_.launch(
      {OpKind::copy, role, reduce_stream_, lowering_.copy_cost(OpKind::copy, type_, at, at), {}},
      lowering_.root, scratch_);
}

// allreduce_no_retain: one reduction to each owner, of its slices; several are flattened first.
// When reductions overlap the device is synchronised before each.
void Zero2Schedule::reduce_slices(const Buffer& gradients, const std::vector<Slice>& parts) {
  Lowering& low = lowering_;
  const Bytes size = size_of(type_);
  const std::int64_t base = low.builder.graph().at(gradients.tensor).offset / size;
  std::vector<std::vector<Slice>> owners;
  for (const Slice& part : parts) {
    const auto found = std::find_if(owners.begin(), owners.end(), [&](const auto& slices) {
      return slices.front().owner == part.owner;
    });
    if (found == owners.end())
      owners.push_back({part});
    else
      found->push_back(part);
  }
  for (const std::vector<Slice>& own : owners) {
    if (overlaps_) low.builder.host_wait_device();
    const bool packs = own.size() > 1;
    Buffer packed = slice(low, gradients, base + own.front().first, own.front().elements, type_);
    if (packs) {
      std::int64_t elements = 0;
      for (const Slice& part : own) elements += part.elements;
      packed = cached(elements, type_, "gradients of one owner");
      low.alloc(packed, reduce_stream_);
      copy_slices(Role::copy_in, gradients, packed, own);
    }
    const Buffer wire = for_wire(packed, false);
    if (world_.ranks > 1) {
      scratch_.assign({updates(wire)});
      low.launch({OpKind::reduce, Role::reduce, reduce_stream_,
                  low.collective_cost(OpKind::reduce, reduced_, wire.bytes, world_.group),
                  world_.communicator},
                 low.root, scratch_);
    }
    for_wire(packed, true);
    if (!packs) continue;
    if (own.front().owner == 0) copy_slices(Role::copy_out, gradients, packed, own);
    low.free(packed);
  }
}

// --- what this rank keeps ---

void Zero2Schedule::keep(std::uint32_t row, const Buffer& gradient) {
  if (offloads()) return offload_gradient(row, gradient);
  const Buffer& into = lowering_.micro_batch == 0 ? kept_ : kept_again_;
  if (!has_kept_) lowering_.alloc(into, reduce_stream_);
  has_kept_ = true;
  const Parameter& parameter = parameters_[row];
  copy(OpKind::copy, Role::copy_out, reduce_stream_, gradient,
       slice(lowering_, into, parameter.offset, parameter.elements, type_));
}

// copy_grads_in_partition with a CPU optimizer: gradients add up in pinned host memory; the last
// micro-batch's sum goes to the optimizer's gradient, and its norm is taken on the device.
void Zero2Schedule::offload_gradient(std::uint32_t row, const Buffer& gradient) {
  Lowering& low = lowering_;
  const Parameter& parameter = parameters_[row];
  const Buffer host = slice(low, host_gradients_, parameter.offset, parameter.elements, type_);
  if (low.workload.train.grad_accum > 1) {
    if (low.micro_batch == 0) {
      copy(OpKind::device_to_host, Role::offload, reduce_stream_, gradient, host);
    } else {
      const Buffer loaded = slice(low, loaded_, 0, parameter.elements, type_);
      copy(OpKind::host_to_device, Role::offload, reduce_stream_, host, loaded);
      scratch_.assign({reads(loaded), updates(gradient)});
      low.launch({OpKind::elementwise,
                  Role::accumulate,
                  reduce_stream_,
                  low.copy_cost(OpKind::elementwise, type_, 2 * gradient.bytes, gradient.bytes),
                  {}},
                 parameter.owner, scratch_);
    }
  }
  if (!low.is_last_micro_batch()) return;
  const Bytes size = size_of(type_);
  const Bytes base = low.builder.graph().at(gradient.tensor).offset / size;
  const Buffer own = slice(low, gradient, base, parameter.own, type_);
  low.alloc(parameter.doubled, reduce_stream_);
  copy(OpKind::cast, Role::clip, reduce_stream_, own, parameter.doubled);
  low.free(parameter.doubled);
  const DType master = low.workload.train.master;
  const Buffer target =
      slice(low, update_->host_gradient(0), parameter.offset, parameter.own, master);
  if (!parameter.widened.storage)
    return copy(OpKind::device_to_host, Role::offload, reduce_stream_, own, target);
  low.alloc(parameter.widened, reduce_stream_);
  copy(OpKind::cast, Role::offload, reduce_stream_, own, parameter.widened);
  copy(OpKind::device_to_host, Role::offload, reduce_stream_, parameter.widened, target);
  low.free(parameter.widened);
}

}  // namespace foregather::plan
