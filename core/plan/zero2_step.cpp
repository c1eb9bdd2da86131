#include "core/plan/zero2_schedule.h"

namespace foregather::plan {

// independent_gradient_partition_epilogue
void Zero2Schedule::end_backward() {
  take_buckets();
  reduce_bucket(true);
  accumulate();
  for (const Buffer& bucket : buckets_) lowering_.free(bucket);
  has_buckets_ = false;
}

// The gradients of a later micro-batch are added one by one.
void Zero2Schedule::accumulate() {
  const bool adds = has_kept_ && lowering_.micro_batch > 0;
  has_kept_ = false;
  if (!adds) return;
  for (const std::uint32_t row : own_rows_) {
    const Parameter& parameter = parameters_[row];
    const Buffer from = slice(lowering_, kept_again_, parameter.offset, parameter.elements, type_);
    scratch_.assign({reads(from), updates(slice(lowering_, kept_, parameter.offset,
                                                parameter.elements, type_))});
    lowering_.launch({OpKind::elementwise,
                      Role::accumulate,
                      lowering_.compute,
                      lowering_.copy_cost(OpKind::elementwise, type_, 2 * from.bytes, from.bytes),
                      {}},
                     parameter.owner, scratch_);
  }
  // Without it the memory is used again only behind the next bucket, which waits as well.
  if (overlaps_) lowering_.wait_stream(reduce_stream_, lowering_.compute);
  lowering_.free(kept_again_);
}

void Zero2Schedule::optimizer_phase() {
  std::vector<Buffer> gradients, doubles;
  for (const std::uint32_t row : own_rows_) {
    if (offloads()) break;
    const Parameter& parameter = parameters_[row];
    gradients.push_back(slice(lowering_, kept_, parameter.offset, parameter.own, type_));
    doubles.push_back(parameter.doubled);
  }
  // The CPU optimizer waits for the gradients that are copied to it, and reads the norm.
  if (offloads()) lowering_.builder.host_wait_device();
  write_zero_norm(lowering_, gradients, doubles, norms_, world_.communicator, DType::f32);
  if (offloads()) lowering_.builder.host_wait_stream(lowering_.compute);
  update_->update();
  gather_parameters();
}

// all_gather_into_tensor, in place: this rank's partition is in the flat buffer.
void Zero2Schedule::gather_parameters() {
  if (world_.ranks <= 1) return;
  scratch_.assign({updates(flat_)});
  lowering_.launch({OpKind::all_gather, Role::gather, lowering_.compute,
                    lowering_.collective_cost(OpKind::all_gather, type_, flat_.bytes, world_.group),
                    world_.communicator},
                   lowering_.root, scratch_);
}

}  // namespace foregather::plan
