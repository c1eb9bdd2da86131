#include "core/plan/lower_checks.h"

#include <limits>

namespace foregather::plan {

namespace {

Status check_fsdp2(const Workload& workload) {
  const Parallel& parallel = workload.parallel;
  if (parallel.reduce_buffers < 1)
    return fail_at(workload.path, "parallel.reduce_buffers is 0, expected at least 1");
  if (parallel.reshard_to > 1 && (parallel.reshard_to >= parallel.shard_size ||
                                  parallel.shard_size % parallel.reshard_to != 0))
    return fail_at(workload.path,
                   "parallel.reshard_after_forward {} is not a smaller divisor of the shard group "
                   "of {} ranks",
                   parallel.reshard_to, parallel.shard_size);
  return {};
}

Status check_fsdp1(const Workload& workload) {
  const Parallel& parallel = workload.parallel;
  if (parallel.sharding == Fsdp1Sharding::no_shard && parallel.shard_size != parallel.world_size)
    return fail_at(workload.path,
                   "parallel.shard_size {} has no meaning with parallel.sharding no_shard: leave "
                   "it out",
                   parallel.shard_size);
  return {};
}

Status check_ddp(const Workload& workload) {
  const Parallel& parallel = workload.parallel;
  if (parallel.shard_size != parallel.world_size)
    return fail_at(workload.path, "parallel.shard_size is {}, but DDP shards nothing",
                   parallel.shard_size);
  if (parallel.param_dtype != workload.train.compute)
    return fail_at(workload.path,
                   "parallel.param_dtype is {}, but DDP gathers nothing and computes in {}: set "
                   "train.precision",
                   name(parallel.param_dtype), name(workload.train.compute));
  if (parallel.reduce_dtype != workload.train.master)
    return fail_at(workload.path,
                   "parallel.reduce_dtype is {}, but DDP reduces gradients in the parameters' {}",
                   name(parallel.reduce_dtype), name(workload.train.master));
  return {};
}

}  // namespace

Status check_plan(const Model& model, const Workload& workload) {
  const Parallel& parallel = workload.parallel;
  const Train& train = workload.train;
  if (model.modules.empty()) return fail_at(workload.path, "the model has no modules");
  if (parallel.world_size == 0 || parallel.shard_size == 0 ||
      parallel.world_size % parallel.shard_size != 0)
    return fail_at(workload.path,
                   "parallel.shard_size {} does not divide parallel.world_size {}: shard groups "
                   "are of equal size",
                   parallel.shard_size, parallel.world_size);
  if (train.grad_accum < 1 || train.grad_accum > std::numeric_limits<std::uint16_t>::max())
    return fail_at(workload.path, "train.grad_accum is {}, expected 1 to 65535", train.grad_accum);
  if (train.checkpointing == Checkpointing::selective_layers && train.checkpoint_every < 1)
    return fail_at(workload.path,
                   "train.activation_checkpointing: every {} layers, expected 1 or more",
                   train.checkpoint_every);
  const bool autocasts = parallel.strategy == Strategy::fsdp1 && parallel.param_dtype == DType::f32;
  if (parallel.strategy != Strategy::ddp && parallel.param_dtype != train.compute && !autocasts)
    return fail_at(workload.path,
                   "parallel.param_dtype is {} but train computes in {}: FSDP computes in the "
                   "dtype of the gathered parameters",
                   name(parallel.param_dtype), name(train.compute));
  if (parallel.strategy == Strategy::fsdp1) return check_fsdp1(workload);
  if (parallel.strategy == Strategy::fsdp2) return check_fsdp2(workload);
  if (parallel.strategy == Strategy::ddp) return check_ddp(workload);
  return {};
}

}  // namespace foregather::plan
