#include "core/plan/host_overhead.h"
#include "core/plan/zero3_schedule.h"

namespace foregather::plan {

void Zero3Schedule::optimizer_phase() {
  release(coordinator_->release_all());
  if (overflow_.storage) check_overflow();
  norm();
  update_->update();
  gather_persistent();
  for (Parameter& parameter : parameters_) {
    if (parameter.has_secondary) lowering_.free(parameter.secondary);
    parameter.has_secondary = false;
  }
}

// fp16: isinf(…).any() and isnan(…).any() over all gradients; the loss scaler reads the answer.
void Zero3Schedule::check_overflow() {
  const Buffer& gradients = gradient_partitions_;
  for (int test = 0; test < 2; ++test) {
    lowering_.alloc(overflow_, reduce_stream_);
    scratch_.assign({reads(gradients), writes(overflow_)});
    lowering_.launch(
        {OpKind::elementwise,
         Role::clip,
         reduce_stream_,
         lowering_.copy_cost(OpKind::elementwise, type_, gradients.bytes, overflow_.bytes),
         {}},
        lowering_.owners[0], scratch_);
    lowering_.free(overflow_);
  }
  write_overflow_flag(lowering_, overflow_flag_, world_.communicator, reduce_stream_);
}

void Zero3Schedule::norm() {
  std::vector<Buffer> gradients, doubles;
  if (!offloads_optimizer()) {
    for (const std::uint32_t row : trained_) {
      gradients.push_back(parameters_[row].gradient_partition);
      doubles.push_back(norm_doubles_[row]);
    }
    write_zero_norm(lowering_, gradients, doubles, norms_, world_.communicator, DType::f64);
    return;
  }
  // The norms are there; their sum is read by the host before and after it is all-reduced.
  lowering_.builder.host_wait_stream(lowering_.compute);
  write_zero_norm(lowering_, gradients, doubles, norms_, world_.communicator, DType::f64);
  lowering_.builder.host_wait_stream(lowering_.compute);
}

// _allgather_params_coalesced: one buffer and one gather each, then the device is synchronised.
void Zero3Schedule::gather_persistent() {
  Lowering& low = lowering_;
  const Rows rows = coordinator_->gather_persistent();
  if (rows.empty() || !gathers()) return;
  const bool loads = offloads_parameters();
  for (const std::uint32_t row : rows) {
    Parameter& parameter = parameters_[row];
    if (is_alone()) {
      low.alloc(parameter.full, low.compute);
      move(OpKind::host_to_device, Role::offload, low.compute, parameter, parameter.partition,
           parameter.full);
      continue;
    }
    if (!loads) continue;
    low.alloc(parameter.loaded, low.compute);
    move(OpKind::host_to_device, Role::offload, low.compute, parameter, parameter.partition,
         parameter.loaded);
    low.builder.host_wait_stream(low.compute);
  }
  if (!is_alone()) {
    for (const std::uint32_t row : rows) low.alloc(parameters_[row].full, low.compute);
    low.wait_stream(nccl_, low.compute);
    for (const std::uint32_t row : rows) {
      Parameter& parameter = parameters_[row];
      scratch_.assign(
          {reads(loads ? parameter.loaded : parameter.partition), writes(parameter.full)});
      low.launch(
          {OpKind::all_gather, Role::gather, nccl_,
           low.collective_cost(OpKind::all_gather, type_, parameter.full.bytes, world_.group),
           world_.communicator},
          parameter.owner, scratch_);
    }
    low.wait_stream(low.compute, nccl_);
  }
  low.builder.host_wait_device();
  if (loads && !is_alone())
    for (const std::uint32_t row : rows) low.free(parameters_[row].loaded);
}

}  // namespace foregather::plan
