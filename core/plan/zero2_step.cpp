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

// _has_inf_or_nan of each gradient; under offloading the backward has looked already.
void Zero2Schedule::check_overflow() {
  Lowering& low = lowering_;
  const auto launch = [&](OpKind kind, const Parameter& parameter, const Buffer& from,
                          const Buffer& to, Bytes read) {
    low.alloc(to, low.compute);
    scratch_.assign({reads(from), writes(to)});
    low.launch({kind, Role::clip, low.compute, low.copy_cost(kind, DType::f32, read, to.bytes), {}},
               parameter.owner, scratch_);
  };
  for (std::size_t i = 0; i < checks_.size(); ++i) {
    const Parameter& parameter = parameters_[own_rows_[i]];
    const OverflowCheck& check = checks_[i];
    const Buffer gradient = slice(low, kept_, parameter.offset, parameter.own, type_);
    launch(OpKind::cast, parameter, gradient, check.widened, gradient.bytes);
    launch(OpKind::elementwise, parameter, check.widened, check.is_nan, check.widened.bytes);
    launch(OpKind::elementwise, parameter, check.widened, check.absolutes, check.widened.bytes);
    launch(OpKind::elementwise, parameter, check.absolutes, check.is_infinite,
           check.absolutes.bytes);
    low.free(check.absolutes);
    launch(OpKind::elementwise, parameter, check.is_infinite, check.is_either,
           2 * check.is_infinite.bytes);
    launch(OpKind::cast, parameter, check.is_either, check.as_numbers, check.is_either.bytes);
    scratch_.assign({reads(check.as_numbers)});
    low.launch({OpKind::reduction,
                Role::clip,
                low.compute,
                low.copy_cost(OpKind::reduction, DType::f32, check.as_numbers.bytes, 4),
                {}},
               parameter.owner, scratch_);
    for (const Buffer* buffer :
         {&check.as_numbers, &check.is_either, &check.is_infinite, &check.is_nan, &check.widened})
      low.free(*buffer);
  }
  write_overflow_flag(low, overflow_flag_, world_.communicator, low.compute);
}

void Zero2Schedule::optimizer_phase() {
  if (overflow_flag_.storage) check_overflow();
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
