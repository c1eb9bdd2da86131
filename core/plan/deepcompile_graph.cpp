#include <algorithm>

#include "core/plan/deepcompile_schedule.h"

namespace foregather::plan {

// --- gather, wait, release ---

void DeepCompileSchedule::begin_graph(GraphPlan& graph) {
  graph_ = &graph;
  for (const std::uint32_t row : graph.rows) {
    gather(parameters_[row]);
    lowering_.builder.record(was_gathered_[row], ag_);
    lowering_.builder.wait(lowering_.compute, was_gathered_[row]);
  }
}

void DeepCompileSchedule::gather(const Parameter& parameter) {
  Lowering& low = lowering_;
  low.wait_stream(ag_, low.compute);
  low.alloc(parameter.full, ag_);
  if (is_alone())
    return move(OpKind::copy, Role::gather, ag_, parameter, parameter.partition, parameter.full);
  const Buffer* from = &parameter.partition;
  if (workspace_.storage) {
    scratch_.assign({reads(parameter.partition), writes(workspace_, 0, parameter.partition.bytes)});
    const Bytes bytes = parameter.partition.bytes;
    low.launch(
        {OpKind::copy, Role::copy_in, ag_, low.copy_cost(OpKind::copy, type_, bytes, bytes), {}},
        parameter.owner, scratch_);
    from = &workspace_;
  }
  scratch_.assign({reads(*from, 0, parameter.partition.bytes), writes(parameter.full)});
  low.launch({OpKind::all_gather, Role::gather, ag_,
              low.collective_cost(OpKind::all_gather, type_, parameter.full.bytes, world_.group),
              communicator_},
             parameter.owner, scratch_);
}

void DeepCompileSchedule::before_op(std::uint32_t module, Phase /*phase*/, std::uint32_t op) {
  const auto found = graph_->cast.find({module, op});
  if (found == graph_->cast.end()) return;
  for (const std::uint32_t row : found->second) {
    const Parameter& parameter = parameters_[row];
    make_computed(parameter);
    if (!graph_->read_uncast[row]) drop_full(parameter);
  }
}

void DeepCompileSchedule::after_op(std::uint32_t module, Phase /*phase*/, std::uint32_t op) {
  if (const auto found = graph_->drop_full.find({module, op}); found != graph_->drop_full.end())
    for (const std::uint32_t row : found->second) drop_full(parameters_[row]);
  const auto found = graph_->drop_computed.find({module, op});
  if (found == graph_->drop_computed.end()) return;
  for (const std::uint32_t row : found->second) lowering_.free(parameters_[row].computed);
}

void DeepCompileSchedule::make_computed(const Parameter& parameter) {
  Lowering& low = lowering_;
  const DType computed = low.workload.train.compute;
  const Buffer& to = parameter.computed;
  const Bytes read = parameter.elements * size_of(type_);
  low.alloc(to, low.compute);
  scratch_.assign({reads(parameter.full, 0, read), writes(to)});
  low.launch({OpKind::cast,
              Role::cast,
              low.compute,
              low.copy_cost(OpKind::cast, computed, read, to.bytes),
              {}},
             parameter.owner, scratch_);
}

void DeepCompileSchedule::drop_full(const Parameter& parameter) {
  lowering_.builder.record_stream(parameter.full.storage, lowering_.compute);
  lowering_.free(parameter.full);
}

// --- gradients ---

void DeepCompileSchedule::move(OpKind kind, Role role, StreamId stream, const Parameter& parameter,
                               const Buffer& from, const Buffer& to) {
  const DType type = lowering_.builder.graph().at(to.tensor).dtype;
  scratch_.assign({reads(from), writes(to)});
  lowering_.launch({kind, role, stream, lowering_.copy_cost(kind, type, from.bytes, to.bytes), {}},
                   parameter.owner, scratch_);
}

void DeepCompileSchedule::add(StreamId stream, const Parameter& parameter, const Buffer& from,
                              const Buffer& to) {
  const DType type = lowering_.builder.graph().at(to.tensor).dtype;
  scratch_.assign({reads(from), updates(to)});
  lowering_.launch({OpKind::elementwise,
                    Role::accumulate,
                    stream,
                    lowering_.copy_cost(OpKind::elementwise, type, from.bytes + to.bytes, to.bytes),
                    {}},
                   parameter.owner, scratch_);
}

void DeepCompileSchedule::gradient_ready(std::uint32_t module, ParameterIndex index,
                                         const Buffer& gradient) {
  Lowering& low = lowering_;
  const std::uint32_t row = low.layout.row_of(module, index);
  Parameter& parameter = parameters_[row];
  Buffer share = gradient;
  if (low.builder.graph().at(gradient.tensor).dtype != reduced_ && !parameter.held.storage) {
    low.alloc(parameter.cast_gradient, low.compute);
    move(OpKind::cast, Role::cast, low.compute, parameter, gradient, parameter.cast_gradient);
    low.free(gradient);
    share = parameter.cast_gradient;
  }
  if (parameter.held.storage) {
    add(low.compute, parameter, share, parameter.held);
    low.free(share);
  } else {
    parameter.held = share;
  }
  if (++parameter.arrived < parameter.shares) return;
  parameter.arrived = 0;
  const Buffer sum = parameter.held;
  parameter.held = {};
  add_to_bucket(row, sum);
}

void DeepCompileSchedule::add_to_bucket(std::uint32_t row, const Buffer& gradient) {
  Lowering& low = lowering_;
  if (!has_buckets_)
    for (const Buffer& bucket : buckets_) low.alloc(bucket, low.compute);
  has_buckets_ = true;
  const Parameter& parameter = parameters_[row];
  const Bytes bytes = parameter.elements * size_of(reduced_);
  if (used_ > 0 && used_ + bytes > buckets_[bucket_].bytes) flush();
  if (used_ == 0 && flushes_ >= buckets_.size())
    low.builder.wait(low.compute, was_flushed_[bucket_]);
  low.wait_stream(copy_, low.compute);
  scratch_.assign({reads(gradient), writes(buckets_[bucket_], used_, bytes)});
  low.launch(
      {OpKind::copy, Role::copy_in, copy_, low.copy_cost(OpKind::copy, reduced_, bytes, bytes), {}},
      parameter.owner, scratch_);
  used_ += bytes;
  pending_.push_back({row, gradient});
}

// One grouped ncclReduceScatter: a receive buffer each, straight into the partition of gradients
// where nothing is to be added or cast.
void DeepCompileSchedule::flush() {
  if (pending_.empty()) return;
  Lowering& low = lowering_;
  const Buffer& bucket = buckets_[bucket_];
  const bool is_added = low.micro_batch > 0 || reduced_ != accumulated_;
  low.wait_stream(rs_, copy_);
  scratch_.assign({AccessedTensor{bucket.tensor, Access::accumulate, 0, used_}});
  low.launch({OpKind::elementwise,
              Role::pre_scale,
              rs_,
              low.copy_cost(OpKind::elementwise, reduced_, used_, used_),
              {}},
             low.owners[0], scratch_);
  scratch_.assign({reads(bucket, 0, used_)});
  for (const Pending& pending : pending_) {
    const Parameter& parameter = parameters_[pending.row];
    if (is_added) low.alloc(parameter.received, rs_);
    scratch_.push_back(writes(is_added ? parameter.received : parameter.gradient_partition));
  }
  if (is_alone())
    low.launch(
        {OpKind::copy, Role::reduce, rs_, low.copy_cost(OpKind::copy, reduced_, used_, used_), {}},
        low.owners[0], scratch_);
  else
    low.launch(
        {OpKind::reduce_scatter, Role::reduce, rs_,
         low.collective_cost(OpKind::reduce_scatter, reduced_, used_, world_.group), communicator_},
        low.owners[0], scratch_);
  for (const Pending& pending : pending_) {
    if (!is_added) break;
    const Parameter& parameter = parameters_[pending.row];
    if (low.micro_batch > 0)
      add(rs_, parameter, parameter.received, parameter.gradient_partition);
    else
      move(OpKind::cast, Role::copy_out, rs_, parameter, parameter.received,
           parameter.gradient_partition);
    low.free(parameter.received);
  }
  low.builder.record(was_flushed_[bucket_], rs_);
  low.wait_stream(low.compute, copy_);
  for (const Pending& pending : pending_) low.free(pending.gradient);
  pending_.clear();
  used_ = 0;
  ++flushes_;
  bucket_ = (bucket_ + 1) % buckets_.size();
}

void DeepCompileSchedule::end_backward() {
  flush();
  lowering_.builder.host_wait_stream(rs_);
  if (has_buckets_)
    for (const Buffer& bucket : buckets_) lowering_.free(bucket);
  has_buckets_ = false;
  bucket_ = flushes_ = 0;
}

// --- optimizer ---

void DeepCompileSchedule::optimizer_phase() {
  std::vector<Buffer> gradients;
  for (const std::uint32_t row : trained_) gradients.push_back(parameters_[row].gradient_partition);
  write_zero_norm(lowering_, gradients, norm_doubles_, norms_, world_.communicator, DType::f64);
  update_->update();
}

}  // namespace foregather::plan
