// One FSDP1 flat parameter: its buffers, its prices, its state while a step is written.
#pragma once

#include "core/plan/lowering.h"
#include "core/plan/process_groups.h"

namespace foregather::plan {

/// "Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`"
/// (torch/distributed/fsdp/_flat_param.py): then recipes wrap what they train by itself.
inline FrozenParts fsdp1_frozen_parts(const Parallel& parallel) {
  return parallel.use_orig_params ? FrozenParts::mixed : FrozenParts::apart;
}

/// The dtypes of a unit's life.
struct Fsdp1Types {
  DType stored = DType::f32;
  DType gathered = DType::f32;
  DType reduced = DType::f32;

  bool operator==(const Fsdp1Types&) const = default;
  bool casts_in() const { return gathered != stored; }
  bool casts_gradient() const { return reduced != gathered; }
  bool casts_out() const { return reduced != stored; }
};

/// The prices of a unit's work; units of one shape share them.
struct Fsdp1Costs {
  CostId cast_in, gather;
  CostId assemble;  ///< the flat gradient
  CostId cast_gradient, pad, pre_scale, reduce, all_reduce, post_scale, cast_out, add_gradient;
};

/// Sizes and streams are those of PyTorch §B.8; N ranks, s elements a shard, S = N·s. A NO_SHARD
/// unit has s = S = the flat parameter.
struct Fsdp1Unit {
  Owner owner;
  Range parameters;        ///< rows of ShardLayout::parameters
  bool is_sharded = true;  ///< false: NO_SHARD
  bool is_alone = false;   ///< its process group is one rank
  bool is_leaf = false;    ///< as UnitPlan::is_leaf
  /// Within a reentrant checkpoint: its forward leaves no hooks, its recomputation is a forward.
  bool is_in_checkpoint = false;
  Fsdp1Types types;
  FlatParameter flat;
  /// Some of its parameters have gradients; then the flat parameter has one of its whole size
  /// (torch/distributed/fsdp/_flat_param.py: requires_grad if any parameter's is).
  bool is_trained = true;
  bool is_unused = false;     ///< it is not, though it asks for gradients: no loss depends on it
  std::uint32_t trigger = 0;  ///< after this module's backward the flat gradient is complete
  std::uint32_t late_trigger = 0;  ///< the same where forward prefetch made the unit's views early
  const Fsdp1Costs* costs = nullptr;

  Buffer shard;            ///< s, stored dtype, default stream
  Buffer cast;             ///< "mp_shard": s, gathered dtype, pre_unshard stream
  Buffer full;             ///< "full_param_padded": S, gathered dtype, unshard stream
  Buffer flat_gradient;    ///< gathered dtype, default stream
  Buffer accumulated;      ///< the same over micro-batches without communication
  Buffer cast_gradient;    ///< reduced dtype, post_backward stream
  Buffer padded_gradient;  ///< S, reduced dtype, post_backward stream; rare
  Buffer reduced;          ///< s, reduced dtype, unless it is the gradient itself
  Buffer cast_output;      ///< s, stored dtype, of a micro-batch that adds to the gradient
  Buffer gradient;         ///< s, stored dtype, until zero_grad
  Buffer loaded;           ///< an offloaded shard on the device, pre_unshard stream
  Buffer host_gradient;    ///< s, stored dtype, if offloaded
  Buffer other_gradient;   ///< NO_SHARD: what casts of every second micro-batch become

  // State.
  bool is_unsharded = false;
  bool is_done = false;  ///< its post-backward ran in this backward
  bool is_cast = false;  ///< `cast` is bound
  bool is_prefetched = false;
  bool needs_pre_forward = false;
  bool needs_pre_backward = false;
  bool has_gradient = false;           ///< a micro-batch of this step has reduced into `gradient`
  const Buffer* held = nullptr;        ///< the flat gradient that autograd would add to
  std::uint32_t forward_position = 0;  ///< in the post-forward order
};

}  // namespace foregather::plan
