// One FSDP2 parameter group: its buffers, its prices, its state while a step is written.
#pragma once

#include <vector>

#include "core/plan/lowering.h"
#include "core/plan/process_groups.h"

namespace foregather::plan {

/// The prices of a unit's work; units of one shape share them.
struct Fsdp2Costs {
  CostId cast_in, copy_in, gather, copy_out;
  CostId regather_cast_in, regather_copy_in, regather;  ///< integer reshard
  CostId gradient_copy_in, pre_scale, reduce, local_reduce;
  CostId all_reduce, post_scale, cast_out;
};

/// Sizes are those of PyTorch §C.3 and C.5: G = padded shard elements of all parameters, N ranks.
/// Frozen parameters are gathered, but neither reduced nor updated; what says G of a reduction is
/// trained_elements (foreach_reduce gets the parameters with a gradient).
struct Fsdp2Unit {
  Owner owner;
  Range parameters;                   ///< rows of ShardLayout::parameters
  std::int64_t shard_elements = 0;    ///< G
  std::int64_t trained_elements = 0;  ///< the part of G that has gradients
  std::uint32_t trained = 0;          ///< parameters that have
  std::int64_t gathered_bytes = 0;    ///< G in the gathered dtype, float8 weights in theirs
  bool reshards = false;              ///< after forward
  const Fsdp2Costs* costs = nullptr;

  Buffer cast;           ///< G in the gathered dtype, on the copy-in stream
  Buffer kept_cast;      ///< the same for an integer reshard's larger part
  Buffer gathered;       ///< N·G, on the copy-in stream
  Buffer reduce_input;   ///< N·G in the reduce dtype
  Buffer reduce_output;  ///< G in the reduce dtype, unless it is the gradient itself
  Buffer cast_output;    ///< G in the stored dtype of a micro-batch that adds to the gradient
  Buffer gradient;       ///< G in the stored dtype, until zero_grad
  Buffer host_gradient;  ///< the same in host memory, if offloaded
  EventId was_gathered, was_copied_out, was_resharded, was_reduced, was_all_reduced,
      was_post_reduced;

  // State.
  bool is_unsharded = false;
  bool is_pending = false;    ///< its all-gather is issued, its copy-out is not
  bool is_kept = false;       ///< resharded to a smaller group
  bool is_reduced = false;    ///< its post-backward ran in this backward
  bool has_gradient = false;  ///< a micro-batch of this step has reduced into `gradient`
  /// The units whose parameters are other names of one storage, this one included: they reduce into
  /// one gradient. The first has the buffers; empty: none.
  std::vector<std::uint32_t> twins;
  std::vector<std::uint32_t> forward_positions;  ///< in the recorded post-forward order
};

/// The dtypes of a unit's life.
struct Fsdp2Types {
  DType stored = DType::f32;
  DType gathered = DType::f32;
  DType reduced = DType::f32;

  bool casts_in() const { return gathered != stored; }
  /// Does autograd cast an unsharded gradient where it is made (its parameter's grad_dtype in
  /// PyTorch 2.15)? What the reduction widens is widened on its way there.
  bool casts_gradients() const {
    return reduced != gathered && size_of(reduced) <= size_of(gathered);
  }
  DType gradient() const { return casts_gradients() ? reduced : gathered; }
  bool casts_out() const { return reduced != stored; }
  /// NCCL divides fp32 and bf16 itself (AVG); other types are scaled before and after.
  bool scales() const { return reduced != DType::f32 && reduced != DType::bf16; }
};

}  // namespace foregather::plan
