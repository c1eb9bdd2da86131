#include "core/plan/lower_checks.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "core/plan/fsdp1_unit.h"
#include "core/plan/key_values.h"

namespace foregather::plan {

namespace {

// Two places of one storage, in different modules.
bool has_tied(const Model& model) {
  std::map<std::string_view, std::size_t> seen;
  for (std::size_t m = 0; m < model.modules.size(); ++m)
    for (const Parameter& parameter : model.tapes[model.modules[m].tape].parameters) {
      if (parameter.tie.empty()) continue;
      const auto [found, is_new] = seen.try_emplace(parameter.tie, m);
      if (!is_new && found->second != m) return true;
    }
  return false;
}

Status check_fsdp2(const Model& model, const Workload& workload) {
  const Parallel& parallel = workload.parallel;
  if (parallel.wrap == Wrap::leaf)
    return fail_at(workload.place_of({"parallel.wrap", "parallel.strategy"}),
                   "parallel.wrap leaf is simulated of FSDP1: expected parallel.strategy fsdp1, or "
                   "block");
  if (parallel.reduce_buffers < 1)
    return fail_at(workload.place_of({"parallel.reduce_buffers"}),
                   "parallel.reduce_buffers is 0, expected at least 1");
  if (parallel.reshard_to > 1 && (parallel.reshard_to >= parallel.shard_size ||
                                  parallel.shard_size % parallel.reshard_to != 0))
    return fail_at(workload.place_of({"parallel.reshard_after_forward", "parallel.shard_size",
                                      "parallel.world_size"}),
                   "parallel.reshard_after_forward {} is not a smaller divisor of the shard group "
                   "of {} ranks",
                   parallel.reshard_to, parallel.shard_size);
  if (parallel.tied == Tied::one_unit) return {};
  if (!has_tied(model))
    return fail_at(workload.place_of({"model.tied", "model.config"}),
                   "model.tied is two-names, but the model has no tied parameters");
  if (parallel.offload != Offload::none)
    return fail_at(workload.place_of({"model.tied", "parallel.offload"}),
                   "model.tied two-names cannot be offloaded: leave out parallel.offload");
  return {};
}

// A unit whose flat parameter FSDP1 refuses to make (fsdp1_frozen_parts).
const UnitPlan* mixed_unit(const ShardLayout& layout) {
  const auto found = std::ranges::find_if(layout.units, [&](const UnitPlan& unit) {
    const auto parameters = layout.parameters_of(unit);
    return std::ranges::any_of(parameters, [&](const ShardedParameter& parameter) {
      return requires_gradient(parameter) != requires_gradient(parameters.front());
    });
  });
  return found == layout.units.end() ? nullptr : &*found;
}

Status check_fsdp1(const Model& model, const Workload& workload) {
  const Parallel& parallel = workload.parallel;
  if (const FrozenParts frozen = fsdp1_frozen_parts(parallel); frozen == FrozenParts::apart) {
    const ShardLayout layout = shard_layout(model, parallel.wrap, TiedUnits::at_root, frozen);
    if (const UnitPlan* mixed = mixed_unit(layout))
      return fail_at(workload.place_of({"parallel.use_orig_params", "train.trainable"}),
                     "parallel.use_orig_params is false, but train.trainable freezes a part of "
                     "{}: FSDP1 expects all of a module that it wraps trained or none",
                     mixed->is_root ? "what is left to the root" : "module " + mixed->path);
  }
  if (parallel.sharding == Fsdp1Sharding::no_shard && parallel.shard_size != parallel.world_size)
    return fail_at(workload.place_of({"parallel.shard_size", "parallel.sharding"}),
                   "parallel.shard_size {} has no meaning with parallel.sharding no_shard: leave "
                   "it out",
                   parallel.shard_size);
  // Each reentrant checkpoint has a backward of its own, in which the unit's hooks end: with
  // PyTorch 2.15 the block before computes with parameters that are gone.
  if (parallel.reentrant_checkpoints && parallel.wrap == Wrap::model && parallel.world_size > 1)
    return fail_at(
        workload.place_of({"parallel.reentrant_checkpoints", "parallel.wrap"}),
        "parallel.reentrant_checkpoints is true, but parallel.wrap is model: FSDP1 frees "
        "and reduces the whole unit behind the backward of each block, expected block");
  return {};
}

Status check_ddp(const Workload& workload) {
  const Parallel& parallel = workload.parallel;
  if (parallel.shard_size != parallel.world_size)
    return fail_at(workload.place_of({"parallel.shard_size"}),
                   "parallel.shard_size is {}, but DDP shards nothing", parallel.shard_size);
  if (parallel.param_dtype != workload.train.compute)
    return fail_at(workload.place_of({"parallel.param_dtype", "train.precision"}),
                   "parallel.param_dtype is {}, but DDP gathers nothing and computes in {}: set "
                   "train.precision",
                   key_name(parallel.param_dtype), key_name(workload.train.compute));
  if (parallel.reduce_dtype != workload.train.master &&
      parallel.reduce_dtype != trained_type(workload.train))
    return fail_at(workload.place_of({"parallel.reduce_dtype", "train.precision"}),
                   "parallel.reduce_dtype is {}, but DDP reduces gradients in the parameters' {}",
                   key_name(parallel.reduce_dtype), key_name(trained_type(workload.train)));
  return {};
}

Status check_zero(const Workload& workload) {
  const Parallel& parallel = workload.parallel;
  if (parallel.shard_size != parallel.world_size)
    return fail_at(workload.place_of({"parallel.shard_size"}),
                   "parallel.shard_size is {}, but ZeRO shards over all {} ranks: set "
                   "parallel.zero_hpz_partition_size for a secondary partition",
                   parallel.shard_size, parallel.world_size);
  if (workload.train.no_sync)
    return fail_at(workload.place_of({"train.no_sync"}),
                   "train.no_sync is true, but ZeRO reduces gradients in each micro-batch");
  const std::uint32_t hpz = workload.zero.hpz_partition_size;
  if (parallel.world_size % hpz != 0)
    return fail_at(workload.place_of({"parallel.zero_hpz_partition_size", "parallel.world_size"}),
                   "parallel.zero_hpz_partition_size {} does not divide parallel.world_size {}",
                   hpz, parallel.world_size);
  if (parallel.strategy == Strategy::zero2 && !workload.zero.contiguous_gradients)
    return fail_at(workload.place_of({"parallel.contiguous_gradients"}),
                   "parallel.contiguous_gradients is false, which is not simulated for ZeRO-2");
  if (parallel.strategy == Strategy::zero2 &&
      (parallel.offload == Offload::parameters || parallel.offload == Offload::all))
    return fail_at(workload.place_of({"parallel.offload"}),
                   "parallel.offload is {}, but ZeRO-2 keeps parameters on the device: expected "
                   "none or optimizer",
                   parallel.offload == Offload::all ? "all" : "parameters");
  return {};
}

Status check_deepcompile(const Workload& workload) {
  const Parallel& parallel = workload.parallel;
  if (parallel.shard_size != parallel.world_size)
    return fail_at(workload.place_of({"parallel.shard_size"}),
                   "parallel.shard_size is {}, but DeepCompile shards over all {} ranks",
                   parallel.shard_size, parallel.world_size);
  if (workload.train.no_sync)
    return fail_at(workload.place_of({"train.no_sync"}),
                   "train.no_sync is true, but ZeRO reduces gradients in each micro-batch");
  return {};
}

Status check_thunder(const Workload& workload) {
  if (workload.train.trainable.kind != Trainable::Kind::all)
    return fail_at(workload.place_of({"train.trainable"}),
                   "train.trainable is not simulated for Thunder: expected all");
  const Parallel& parallel = workload.parallel;
  const Train& train = workload.train;
  if (parallel.shard_size != parallel.world_size)
    return fail_at(workload.place_of({"parallel.shard_size"}),
                   "parallel.shard_size is {}, but Thunder shards over all {} ranks",
                   parallel.shard_size, parallel.world_size);
  if (train.no_sync)
    return fail_at(workload.place_of({"train.no_sync"}),
                   "train.no_sync is true, which is not simulated for Thunder");
  if (train.master != train.compute || parallel.reduce_dtype != train.compute)
    return fail_at(
        workload.place_of({"train.precision", "parallel.reduce_dtype", "parallel.strategy"}),
        "train.precision is mixed, but Thunder gathers and reduces parameters in the "
        "dtype they are stored in: set it to bf16 or fp32");
  return {};
}

Status check_offload(const Workload& workload) {
  const Parallel& parallel = workload.parallel;
  if (parallel.offload == Offload::none) return {};
  if (parallel.strategy == Strategy::fsdp1 || parallel.strategy == Strategy::fsdp2) {
    const bool is_whole =
        parallel.strategy == Strategy::fsdp1 &&
        (parallel.sharding == Fsdp1Sharding::no_shard || parallel.shard_size == 1);
    if (is_whole)
      return fail_at(workload.place_of({"parallel.offload"}),
                     "parallel.offload is not simulated where FSDP1 shards nothing (no_shard)");
    if (parallel.offload == Offload::all) return {};
    return fail_at(workload.place_of({"parallel.offload"}),
                   "parallel.offload is not all, but FSDP offloads parameters, gradients and "
                   "optimizer together");
  }
  return fail_at(workload.place_of({"parallel.offload"}),
                 "parallel.offload is set, but this strategy offloads nothing");
}

bool has_trained(const Model& model) {
  for (const Tape& tape : model.tapes)
    for (const Parameter& parameter : tape.parameters)
      if (parameter.trainable) return true;
  return false;
}

// The weights of a block.
std::string example_names(const Model& model) {
  constexpr std::size_t kMost = 8;
  std::string list;
  std::size_t count = 0;
  for (const Module& module : model.modules) {
    if (!module.is_block) continue;
    for (const Parameter& parameter : model.tapes[module.tape].parameters)
      if (++count <= kMost) list += (list.empty() ? "" : ", ") + parameter.name;
    break;
  }
  return list;
}

// A list that names what is not there was written for another model.
Status check_blocks(const Model& model, const Workload& workload) {
  const Train& train = workload.train;
  if (train.checkpointing != Checkpointing::named_layers) return {};
  const std::int64_t blocks = std::ranges::count_if(model.modules, &Module::is_block);
  for (const BlockRange& range : train.checkpoint_blocks)
    if (range.last >= blocks)
      return fail_at(workload.place_of({"train.activation_checkpointing"}),
                     "train.activation_checkpointing names block {}, but the model has {} blocks, "
                     "counted from 0",
                     range.last, blocks);
  return {};
}

}  // namespace

Status check_plan(const Model& model, const Workload& workload) {
  const Parallel& parallel = workload.parallel;
  const Train& train = workload.train;
  if (model.modules.empty()) return fail_at(workload.path, "the model has no modules");
  if (parallel.world_size == 0 || parallel.shard_size == 0 ||
      parallel.world_size % parallel.shard_size != 0)
    return fail_at(workload.place_of({"parallel.shard_size", "parallel.world_size"}),
                   "parallel.shard_size {} does not divide parallel.world_size {}: shard groups "
                   "are of equal size",
                   parallel.shard_size, parallel.world_size);
  if (train.trainable.kind != Trainable::Kind::all && !has_trained(model))
    return fail_at(workload.place_of({"train.trainable", "train.lora_targets"}),
                   "train.trainable (and train.lora_targets) match no parameter of the model, "
                   "expected parts of names such as {}",
                   example_names(model));
  if ((train.attention == Attention::flash || train.attention == Attention::cudnn) &&
      train.compute == DType::f32)
    return fail_at(workload.place_of({"train.attention", "train.precision"}),
                   "train.attention is {}, which does not compute in fp32: expected sdpa or eager, "
                   "or another train.precision",
                   train.attention == Attention::flash ? "flash" : "cudnn");
  if (train.float8_all_gather && parallel.strategy != Strategy::fsdp2)
    return fail_at(workload.place_of({"train.float8_all_gather", "parallel.strategy"}),
                   "train.float8_all_gather needs parallel.strategy fsdp2: only its parameters can "
                   "be float8");
  if (train.float8_all_gather && train.float8 != Float8::tensorwise)
    return fail_at(workload.place_of({"train.float8_all_gather", "train.float8"}),
                   "train.float8_all_gather needs train.float8 tensorwise: torchao gathers no "
                   "other float8 weights");
  if (train.grad_accum < 1 || train.grad_accum > std::numeric_limits<std::uint16_t>::max())
    return fail_at(workload.place_of({"train.grad_accum"}),
                   "train.grad_accum is {}, expected 1 to 65535", train.grad_accum);
  if (train.checkpointing == Checkpointing::selective_layers && train.checkpoint_every < 1)
    return fail_at(workload.place_of({"train.activation_checkpointing"}),
                   "train.activation_checkpointing: every {} layers, expected 1 or more",
                   train.checkpoint_every);
  if (const Status blocks = check_blocks(model, workload); !blocks) return blocks;
  const bool may_autocast = parallel.strategy == Strategy::fsdp1 ||
                            parallel.strategy == Strategy::fsdp2 ||
                            parallel.strategy == Strategy::deepcompile;
  const bool autocasts = may_autocast && parallel.param_dtype == DType::f32;
  if (!is_whole(parallel.strategy) && parallel.param_dtype != train.compute && !autocasts)
    return fail_at(workload.place_of({"parallel.param_dtype", "train.precision"}),
                   "parallel.param_dtype is {} but train computes in {}: autocast over gathered "
                   "parameters is simulated of fp32 ones under FSDP and DeepCompile alone, others "
                   "compute in their dtype",
                   key_name(parallel.param_dtype), key_name(train.compute));
  if (parallel.strategy == Strategy::zero3 || parallel.strategy == Strategy::zero2)
    return check_zero(workload);
  if (const Status offload = check_offload(workload); !offload) return offload;
  if (parallel.strategy == Strategy::deepcompile) return check_deepcompile(workload);
  if (parallel.strategy == Strategy::thunder_zero2 || parallel.strategy == Strategy::thunder_zero3)
    return check_thunder(workload);
  if (parallel.strategy == Strategy::fsdp1) return check_fsdp1(model, workload);
  if (parallel.strategy == Strategy::fsdp2) return check_fsdp2(model, workload);
  if (parallel.strategy == Strategy::ddp) return check_ddp(workload);
  return {};
}

}  // namespace foregather::plan
