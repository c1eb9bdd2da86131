#include "core/plan/ddp_schedule.h"

namespace foregather::plan {

// --- gradients ---

// Autograd hands its own tensor to .grad when there is none yet; in a bucket's view .grad is copied
// and freed at once.
bool DdpSchedule::keeps_gradient(std::uint32_t row) const {
  const bool is_kept = !views_ || !fills_buckets();
  return is_kept && !has_gradient_[row] && !is_view_[row];
}

// Where the gradient of this place is made.
Buffer DdpSchedule::target(const Place& place) const {
  const bool is_whole = place.is_first && (place.is_cast || !tied_.makes_sum(place.row));
  return is_whole && keeps_gradient(place.row) ? gradients_[place.row] : place.gradient;
}

void DdpSchedule::begin_backward() {
  for (const Place& place : places_)
    if (!place.is_cast) modules_->set_gradient(place.module, place.index, target(place));
  if (!fills_buckets()) return;
  next_bucket_ = 0;
  if (!is_rebuilt_)
    first_bucket_.missing = trained_.size();
  else
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      buckets_[b].missing = rebuilt_plan_.members[b].size();
}

void DdpSchedule::gradient_ready(std::uint32_t module, ParameterIndex index,
                                 const Buffer& gradient) {
  const Place& place = places_[first_place_[module] + index];
  Buffer share = gradient;
  if (place.is_cast) {
    share = target(place);
    copies_->widen_gradient(place.row, gradient, share);
  }
  const Buffer* sum = keeps_gradient(place.row) ? &gradients_[place.row] : nullptr;
  if (const auto whole = tied_.take(place.row, share, row_owners_[place.row], place.is_cast, sum))
    accumulate(place.row, *whole);
}

void DdpSchedule::add(const Buffer& from, const AccessedTensor& to, const Owner& owner) {
  scratch_.assign({reads(from), to});
  lowering_.launch({OpKind::elementwise,
                    Role::accumulate,
                    lowering_.compute,
                    lowering_.copy_cost(OpKind::elementwise, stored_, 2 * from.bytes, from.bytes),
                    {}},
                   owner, scratch_);
}

// AccumulateGrad of a parameter that has a gradient.
void DdpSchedule::add_to_gradient(std::uint32_t row, const Buffer& gradient) {
  add(gradient, is_view_[row] ? in_bucket(row, Access::accumulate) : updates(gradients_[row]),
      row_owners_[row]);
  lowering_.free(gradient);
}

// AccumulateGrad, then the reducer's hook.
void DdpSchedule::accumulate(std::uint32_t row, const Buffer& gradient) {
  const bool was_view = is_view_[row];
  const bool had_gradient = has_gradient_[row];
  if (had_gradient && is_one_node_)
    waiting_.emplace_back(row, gradient);
  else if (was_view || had_gradient)
    add_to_gradient(row, gradient);
  has_gradient_[row] = !was_view && (had_gradient || gradient.storage == gradients_[row].storage);
  if (!fills_buckets()) return;
  const Buffer source = had_gradient ? gradients_[row] : gradient;
  Cost cost;
  cost.kind = OpKind::elementwise;
  cost.dtype = stored_;
  cost.flops = source.bytes / size_of(stored_);
  cost.bytes_read = cost.bytes_written = source.bytes;
  if (was_view)
    scratch_.assign({in_bucket(row, Access::accumulate)});
  else
    scratch_.assign({reads(source), in_bucket(row, Access::write)});
  lowering_.launch({OpKind::elementwise,
                    was_view ? Role::pre_scale : Role::copy_in,
                    lowering_.compute,
                    lowering_.builder.cost(cost),
                    {}},
                   row_owners_[row], scratch_);
  if (views_ && !was_view) {
    lowering_.free(source);
    has_gradient_[row] = false;
    is_view_[row] = true;
  }
  Bucket& bucket = is_rebuilt_ ? buckets_[plan().places[row].bucket] : first_bucket_;
  --bucket.missing;
  reduce_ready_buckets();
}

// --- buckets ---

AccessedTensor DdpSchedule::in_bucket(std::uint32_t row, Access mode) const {
  const bool is_first = !views_ && !is_rebuilt_;
  const BucketPlace& place = (is_first ? first_plan_ : rebuilt_plan_).places[row];
  const Buffer& buffer = is_first ? first_bucket_.buffer : buckets_[place.bucket].buffer;
  return {buffer.tensor, mode, place.offset * size_of(stored_), parameters_[row].bytes};
}

std::vector<AccessedTensor> DdpSchedule::whole_bucket(std::uint32_t bucket) const {
  if (is_rebuilt_) return {updates(buckets_[bucket].buffer)};
  if (!views_) return {updates(first_bucket_.buffer)};
  std::vector<AccessedTensor> all;
  for (const Bucket& part : buckets_) all.push_back(updates(part.buffer));
  return all;
}

void DdpSchedule::reduce_ready_buckets() {
  const auto buckets = static_cast<std::uint32_t>(plan().members.size());
  while (next_bucket_ < buckets &&
         (is_rebuilt_ ? buckets_[next_bucket_] : first_bucket_).missing == 0)
    reduce(next_bucket_++);
  if (finds_unused_ && next_bucket_ == buckets) reduce_used_map();
}

// Reducer::all_reduce_local_used_map.
void DdpSchedule::reduce_used_map() {
  if (world_.ranks <= 1) return;
  send_numbers(OpKind::all_reduce, used_map_.buffer);
  lowering_.builder.record(used_map_.was_reduced, communication_);
}

void DdpSchedule::reduce(std::uint32_t bucket) {
  if (world_.ranks <= 1) return;
  Lowering& low = lowering_;
  const Bytes bytes = plan().elements[bucket] * size_of(stored_);
  low.wait_stream(communication_, low.compute);
  low.launch(
      {OpKind::all_reduce, Role::reduce, communication_,
       low.collective_cost(OpKind::all_reduce, stored_, bytes, world_.group), world_.communicator},
      low.root, whole_bucket(bucket));
  low.builder.record((is_rebuilt_ ? buckets_[bucket] : first_bucket_).was_reduced, communication_);
}

void DdpSchedule::end_backward() {
  for (const auto& [row, gradient] : waiting_) add_to_gradient(row, gradient);
  waiting_.clear();
  if (!fills_buckets()) return;
  const auto buckets = static_cast<std::uint32_t>(plan().members.size());
  for (std::uint32_t b = 0; b < buckets; ++b) {
    if (world_.ranks > 1)
      lowering_.builder.wait(lowering_.compute,
                             (is_rebuilt_ ? buckets_[b] : first_bucket_).was_reduced);
    if (!views_) copy_back(b);
  }
  if (finds_unused_ && world_.ranks > 1)
    lowering_.builder.wait(lowering_.compute, used_map_.was_reduced);
  has_reduced_ = true;
}

void DdpSchedule::copy_back(std::uint32_t bucket) {
  for (const std::uint32_t row : plan().members[bucket]) {
    const Buffer& gradient = gradients_[row];
    scratch_.assign({in_bucket(row, Access::read), writes(gradient)});
    lowering_.launch({OpKind::copy,
                      Role::copy_out,
                      lowering_.compute,
                      lowering_.copy_cost(OpKind::copy, stored_, gradient.bytes, gradient.bytes),
                      {}},
                     row_owners_[row], scratch_);
  }
}

// --- rebuilding ---

void DdpSchedule::begin_forward() {
  if (has_reduced_ && !is_rebuilt_) rebuild();
  const bool follows_no_sync = lowering_.workload.train.no_sync && lowering_.micro_batch > 0;
  if (lowering_.buffers.empty() || follows_no_sync || world_.ranks <= 1 ||
      !lowering_.workload.parallel.broadcast_buffers)
    return;
  if (!buffer_broadcast_) buffer_broadcast_.emplace(lowering_, world_, communication_);
  buffer_broadcast_->perform();
}

void DdpSchedule::end_first_step() {
  if (reduces_ && !is_rebuilt_) rebuild();
}

void DdpSchedule::rebuild() {
  const auto parameters = static_cast<std::int64_t>(trained_.size());
  const auto buckets = static_cast<std::int64_t>(buckets_.size());
  const auto numbers = [&](std::int64_t count, std::string_view name) {
    return lowering_.buffer(count, DType::i32, name, Cause::temporary, lowering_.root);
  };
  // Reducer::sync_bucket_indices: every parameter's index and their number, then the sizes.
  broadcast(numbers(parameters + 1, "bucket indices"));
  broadcast(numbers(buckets, "bucket sizes"));
  if (!views_) {
    lowering_.free(first_bucket_.buffer);
    for (const Bucket& bucket : buckets_) lowering_.alloc(bucket.buffer, lowering_.compute);
  }
  is_rebuilt_ = true;
}

void DdpSchedule::broadcast(const Buffer& buffer) {
  if (world_.ranks <= 1) return;
  Lowering& low = lowering_;
  low.alloc(buffer, low.compute);
  send_numbers(OpKind::broadcast, buffer);
  low.wait_stream(low.compute, communication_);
  copy_numbers(OpKind::device_to_host, reads(buffer));
  low.builder.host_wait_stream(low.compute);
  low.free(buffer);
}

void DdpSchedule::send_numbers(OpKind kind, const Buffer& buffer) {
  Lowering& low = lowering_;
  copy_numbers(OpKind::host_to_device, writes(buffer));
  low.wait_stream(communication_, low.compute);
  scratch_.assign({updates(buffer)});
  low.launch(
      {kind, Role::other, communication_,
       low.collective_cost(kind, DType::i32, buffer.bytes, world_.group), world_.communicator},
      low.root, scratch_);
}

void DdpSchedule::copy_numbers(OpKind kind, const AccessedTensor& access) {
  Lowering& low = lowering_;
  scratch_.assign({access});
  low.launch({kind,
              Role::other,
              low.compute,
              low.copy_cost(kind, DType::i32, access.bytes, access.bytes),
              {}},
             low.root, scratch_);
}

// zero_grad(set_to_none=True). Views let go of their buckets, which stay.
void DdpSchedule::drop_gradients() {
  if (!views_)
    for (const std::uint32_t row : trained_) lowering_.free(gradients_[row]);
  has_gradient_.assign(has_gradient_.size(), false);
  is_view_.assign(is_view_.size(), false);
}

}  // namespace foregather::plan
