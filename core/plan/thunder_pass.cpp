#include <algorithm>
#include <limits>

#include "core/plan/thunder_schedule.h"

namespace foregather::plan {

void ThunderSchedule::begin_pass(bool backward) {
  pass_ = backward ? &backward_ : &forward_;
  issued_ = waited_ = 0;
  if (!backward) return;
  for (Bucket& bucket : buckets_) bucket.missing = bucket.rows.size();
}

// --- parameters ---

void ThunderSchedule::before_op(std::uint32_t module, Phase /*phase*/, std::uint32_t op) {
  const auto found = pass_->first.find({module, op});
  if (found == pass_->first.end()) return;
  // ZeRO-2's backward finds everything in place.
  if (pass_ == &backward_ && !is_zero3()) return;
  constexpr std::size_t kInFlight = 3;
  for (const std::uint32_t bucket : found->second) {
    const std::size_t most =
        is_zero3() ? waited_ + kInFlight : std::numeric_limits<std::size_t>::max();
    while (issued_ < std::min(most, pass_->order.size())) issue(pass_->order[issued_++]);
    await(bucket);
    ++waited_;
  }
}

void ThunderSchedule::after_op(std::uint32_t module, Phase /*phase*/, std::uint32_t op) {
  const auto found = pass_->last.find({module, op});
  if (found == pass_->last.end()) return;
  for (const std::uint32_t row : found->second) {
    Parameter& parameter = parameters_[row];
    const bool is_saved = pass_ == &forward_ && !is_zero3() && backward_.uses[row];
    if (is_saved || !parameter.is_gathered) continue;
    lowering_.free(parameter.full);
    parameter.is_gathered = false;
  }
}

void ThunderSchedule::copy(Role role, const Bucket& bucket,
                           std::span<const AccessedTensor> accesses, Bytes bytes) {
  lowering_.launch({OpKind::copy,
                    role,
                    lowering_.compute,
                    lowering_.copy_cost(OpKind::copy, type_, bytes, bytes),
                    {}},
                   parameters_[bucket.rows.front()].owner, accesses);
}

// Asynchronous: on the process group's stream, behind what the compute stream has so far.
void ThunderSchedule::collective(OpKind kind, const Bucket& bucket, const Buffer& from,
                                 const Buffer& to) {
  Lowering& low = lowering_;
  low.wait_stream(nccl_, low.compute);
  const std::vector accesses{reads(from), writes(to)};
  const Owner& owner = parameters_[bucket.rows.front()].owner;
  const Role role = kind == OpKind::all_gather ? Role::gather : Role::reduce;
  if (world_.ranks > 1)
    low.launch({kind, role, nccl_,
                low.collective_cost(kind, type_, std::max(from.bytes, to.bytes), world_.group),
                world_.communicator},
               owner, accesses);
  else
    low.launch(
        {OpKind::copy, role, nccl_, low.copy_cost(OpKind::copy, type_, from.bytes, to.bytes), {}},
        owner, accesses);
}

void ThunderSchedule::issue(std::uint32_t index) {
  Lowering& low = lowering_;
  Bucket& bucket = buckets_[index];
  if (is_bucketed()) {
    low.alloc(bucket.packed, low.compute);
    scratch_.clear();
    for (const std::uint32_t row : bucket.rows) scratch_.push_back(reads(parameters_[row].part));
    scratch_.push_back(writes(bucket.packed));
    copy(Role::copy_in, bucket, scratch_, bucket.packed.bytes);
    low.alloc(bucket.gathered, low.compute);
    collective(OpKind::all_gather, bucket, bucket.packed, bucket.gathered);
    low.builder.record_stream(bucket.packed.storage, nccl_);
    low.free(bucket.packed);
  } else {
    Parameter& parameter = parameters_[bucket.rows.front()];
    low.alloc(parameter.full, low.compute);
    parameter.is_gathered = true;
    collective(OpKind::all_gather, bucket, parameter.part, parameter.full);
  }
  low.builder.record(bucket.was_gathered, nccl_);
}

// A bucket's parameters are copied out together. One that this pass does not use goes at once.
void ThunderSchedule::await(std::uint32_t index) {
  Lowering& low = lowering_;
  Bucket& bucket = buckets_[index];
  low.builder.wait(low.compute, bucket.was_gathered);
  if (!is_bucketed()) return;
  scratch_.assign({reads(bucket.gathered)});
  for (const std::uint32_t row : bucket.rows) {
    low.alloc(parameters_[row].full, low.compute);
    parameters_[row].is_gathered = true;
    scratch_.push_back(writes(parameters_[row].full));
  }
  copy(Role::copy_out, bucket, scratch_, bucket.gathered.bytes);
  low.free(bucket.gathered);
  for (const std::uint32_t row : bucket.rows) {
    const bool is_needed =
        pass_->uses[row] || (pass_ == &forward_ && !is_zero3() && backward_.uses[row]);
    if (is_needed) continue;
    low.free(parameters_[row].full);
    parameters_[row].is_gathered = false;
  }
}

// --- gradients ---

void ThunderSchedule::add(const Parameter& parameter, const Buffer& from, const Buffer& to) {
  scratch_.assign({reads(from), updates(to)});
  lowering_.launch({OpKind::elementwise,
                    Role::accumulate,
                    lowering_.compute,
                    lowering_.copy_cost(OpKind::elementwise, type_, 2 * from.bytes, to.bytes),
                    {}},
                   parameter.owner, scratch_);
}

void ThunderSchedule::gradient_ready(std::uint32_t module, ParameterIndex index,
                                     const Buffer& gradient) {
  Lowering& low = lowering_;
  const std::uint32_t row = low.layout.row_of(module, index);
  Parameter& parameter = parameters_[row];
  if (parameter.held.storage) {
    add(parameter, gradient, parameter.held);
    low.free(gradient);
  } else {
    parameter.held = gradient;
  }
  if (++parameter.arrived < parameter.shares) return;
  parameter.arrived = 0;
  low.alloc(parameter.averaged, low.compute);
  scratch_.assign({reads(parameter.held), writes(parameter.averaged)});
  low.launch(
      {OpKind::elementwise,
       Role::pre_scale,
       low.compute,
       low.copy_cost(OpKind::elementwise, type_, parameter.held.bytes, parameter.averaged.bytes),
       {}},
      parameter.owner, scratch_);
  low.free(parameter.held);
  parameter.held = {};
  Bucket& bucket = buckets_[parameter.bucket];
  if (--bucket.missing == 0) reduce(bucket);
}

void ThunderSchedule::reduce(Bucket& bucket) {
  Lowering& low = lowering_;
  const bool first = low.micro_batch == 0;
  reductions_.push_back(static_cast<std::uint32_t>(&bucket - buckets_.data()));
  if (!is_bucketed()) {
    const Parameter& parameter = parameters_[bucket.rows.front()];
    const Buffer& into = first ? parameter.gradient : parameter.added;
    low.alloc(into, low.compute);
    collective(OpKind::reduce_scatter, bucket, parameter.averaged, into);
    low.builder.record_stream(parameter.averaged.storage, nccl_);
    low.free(parameter.averaged);
    return;
  }
  low.alloc(bucket.to_reduce, low.compute);
  scratch_.clear();
  for (const std::uint32_t row : bucket.rows) scratch_.push_back(reads(parameters_[row].averaged));
  scratch_.push_back(writes(bucket.to_reduce));
  copy(Role::copy_in, bucket, scratch_, bucket.to_reduce.bytes);
  const Buffer& into = first ? bucket.reduced : bucket.added;
  low.alloc(into, low.compute);
  collective(OpKind::reduce_scatter, bucket, bucket.to_reduce, into);
  low.builder.record_stream(bucket.to_reduce.storage, nccl_);
  low.free(bucket.to_reduce);
}

// All reductions are waited for; full gradients of buckets, the donors of shapes, go.
void ThunderSchedule::end_backward() {
  Lowering& low = lowering_;
  low.wait_stream(low.compute, nccl_);
  const bool adds = low.micro_batch > 0;
  for (const std::uint32_t index : reductions_) {
    const Bucket& bucket = buckets_[index];
    const Parameter& parameter = parameters_[bucket.rows.front()];
    if (is_bucketed())
      for (const std::uint32_t row : bucket.rows) low.free(parameters_[row].averaged);
    if (!adds) continue;
    const Buffer& from = is_bucketed() ? bucket.added : parameter.added;
    add(parameter, from, is_bucketed() ? bucket.reduced : parameter.gradient);
    low.free(from);
  }
  reductions_.clear();
}

void ThunderSchedule::drop_gradients() {
  for (const Bucket& bucket : buckets_)
    lowering_.free(is_bucketed() ? bucket.reduced : parameters_[bucket.rows.front()].gradient);
}

}  // namespace foregather::plan
