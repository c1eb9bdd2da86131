// FSDP1 (torch.distributed.fsdp.FullyShardedDataParallel): one flat parameter a unit. Follows
// PyTorch 2.8 and later (reference: PyTorch §B).
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "core/plan/free_event_queue.h"
#include "core/plan/fsdp1_unit.h"
#include "core/plan/loss_place.h"
#include "core/plan/module_writer.h"
#include "core/plan/strategy_schedule.h"
#include "core/plan/tied_gradients.h"

namespace foregather::plan {

/// A unit's actions happen in host order exactly where PyTorch's hooks have them; what PyTorch
/// keeps as object state between hooks, this class keeps while it writes.
///
/// Streams: default, unshard, pre_unshard, post_backward, all_reduce (hybrid sharding); priority −1
/// for the middle three if hybrid sharding and the rate limiter are on. Buffers that cross streams
/// are record_stream'ed, so that their memory comes back only when the event behind it happened.
///
/// The gradient of a flat parameter is the concatenation of its parameters' gradients
/// (SplitWithSizesBackward): for a moment both exist. (Left out: the zeros, a few bytes each, that
/// autograd makes for the padding between aligned parameters.) It is assembled where autograd
/// reaches the creation of the unit's views: after the backward of the unit's first module, or with
/// forward_prefetch, which makes the views a unit early, after that of the unit before it.
/// So it is where a checkpoint (not a reentrant one) recomputes: the backward runs the nodes of the
/// first forward, whatever views the recomputation reads.
///
/// A frozen unit is resharded where the gradient of its input is there
/// (_register_post_backward_reshard_only_hook): after the pre-backward of the unit whose output
/// that is. Without such a gradient it stays until the end of the backward.
///
/// Before the first forward a unit's gathered parameters, in the stored dtype too if that differs,
/// are allocated and freed at once on the default stream (init_flat_param_attributes).
///
/// offload: a unit's shard is copied to the device before each gather, with a cast also where it is
/// gathered already. What a reduction leaves is
/// copied to the host, and stays on the device until the end of the step's backward, as
/// micro-batches add up there; then the host waits for the copies.
///
/// A shard group of one is NO_SHARD, as PyTorch decides by itself; so is a unit of a module tree
/// whose own process group is one rank: its parameters are not gathered, its gradients not reduced.
///
/// Units may hold units (a module tree): an outer one begins before those within it and ends after
/// them, and shards what they do not.
///
/// A leaf (UnitPlan::is_leaf) begins and ends with the ops that read its parameters. Where its
/// block recomputes, it is gathered and resharded for that too: only the block's own unit is in its
/// backward by then (_pre_forward, HandleTrainingState.BACKWARD_PRE).
///
/// reentrant_checkpoints: a checkpointed block's unit is within the checkpoint. Its first forward
/// runs without gradients, so that it has no hook in the backward and nothing is prefetched; the
/// recomputation is a forward of its own, with gather and reshard, before the backward gathers
/// again. Where the unit is frozen, its hook on its input
/// (_register_post_backward_reshard_only_hook) holds that, a leaf there, and so the gradient of
/// that, until the backward ends.
///
/// Parameters gathered in fp32 that compute in a shorter dtype are torch.autocast without
/// MixedPrecision: matmuls read copies, made anew at each use (its cache holds leaves, and FSDP's
/// parameters are views), kept where autograd saves them; their gradients are cast back. All other
/// parameters are used as gathered.
///
/// With use_orig_params the optimizer sees the parts of the parameters that lie in its shard. All
/// ranks are lowered as one of them: the others cut other parameters, into as many bytes. Where
/// only some are trained, or states of int8 are for some sizes only, ranks differ: it is the first
/// one whose optimizer holds most.
class Fsdp1Schedule final : public StrategySchedule {
 public:
  explicit Fsdp1Schedule(Lowering& lowering);

  void init(ModuleWriter& modules) override;
  void begin_forward() override;
  void before_forward(std::uint32_t module) override;
  void after_forward(std::uint32_t module) override;
  bool acts_between_ops(std::uint32_t module) const override {
    return parts_loss(module) || !leaf_uses_[module].empty() || first_backward_[module] != 0;
  }
  void before_op(std::uint32_t module, Phase phase, std::uint32_t op) override;
  void after_op(std::uint32_t module, Phase phase, std::uint32_t op) override;
  void begin_backward() override;
  void before_backward(std::uint32_t module) override;
  void gradient_ready(std::uint32_t module, ParameterIndex index, const Buffer& gradient) override;
  void after_backward(std::uint32_t module) override;
  void end_backward() override;
  void drop_gradients() override;
  std::span<const OptimizedTensor> optimized() const override { return optimized_; }
  bool has_own_optimizer() const override { return offloads(); }
  void optimizer_phase() override;
  std::span<const CommunicatorId> norm_communicators() const override { return norm_; }
  bool clips_by_tensor() const override { return is_sharded(); }
  bool first_step_differs() const override;
  void step_copied(std::uint32_t main_shift) override;
  void finish() override;

 private:
  /// CPUOffload: shards, their gradients and the optimizer are in pinned host memory.
  bool offloads() const { return lowering_.workload.parallel.offload == Offload::all; }
  bool is_sharded() const { return sharding_ != Fsdp1Sharding::no_shard; }
  /// Ranks that share a unit's parameters.
  std::uint32_t shards(const Fsdp1Unit& unit) const {
    return unit.is_sharded ? groups_.shard.ranks : 1;
  }
  /// The group in which an unsharded unit's gradients are reduced.
  ProcessGroup whole_group(const Fsdp1Unit& unit) const {
    return unit.is_alone ? ProcessGroup() : world_;
  }
  std::int64_t pre_factor(const Fsdp1Unit& unit) const { return unit.is_alone ? 1 : pre_factor_; }
  double post_factor(const Fsdp1Unit& unit) const { return unit.is_alone ? 1 : post_factor_; }

  // fsdp1_setup.cpp
  void add_units();
  void describe(Fsdp1Unit& unit, const UnitPlan& plan);
  void add_triggers();
  void add_buffers(Fsdp1Unit& unit);
  void touch_buffers(const Fsdp1Unit& unit);
  void add_views(ModuleWriter& modules);
  /// What is trained in the rank's shard of the unit: its first element in the shard, elements.
  template <class Take>
  void for_each_piece(const Fsdp1Unit& unit, std::uint32_t rank, const Take& take) const;
  std::uint32_t fullest_rank() const;
  void add_optimized(const Fsdp1Unit& unit);
  Fsdp1Costs costs_of(const Fsdp1Unit& unit);

  // fsdp1_autocast.cpp
  /// A parameter of a module under autocast.
  struct Copy {
    Buffer parameter;  ///< as gathered
    Buffer computed;   ///< in the compute dtype, for matmuls
    Buffer gradient;   ///< in the gathered dtype
    Owner owner;
    std::uint32_t leaf = 0;  ///< its unit if that is a leaf
    bool is_there = false;   ///< `computed` is bound
  };
  bool autocasts() const { return types_.gathered != lowering_.workload.train.compute; }
  void add_copies(ModuleWriter& modules, std::span<const Buffer> views);
  std::span<Copy> copies_of(std::uint32_t module);
  void make_copies(std::uint32_t module, std::uint32_t leaf = 0);
  void drop_copies(std::uint32_t module);
  void drop_unsaved_copies(std::uint32_t module);
  Buffer cast_gradient(std::uint32_t module, ParameterIndex index, const Buffer& gradient);

  // fsdp1_leaves.cpp
  /// The ops of a pass, in one phase, that use a leaf's parameters or make their gradients.
  struct LeafUse {
    std::uint32_t unit = 0;
    Phase phase = Phase::forward;
    std::uint32_t first = 0, last = 0;
    std::uint32_t late_last = 0;  ///< the same where forward prefetch made the unit's views early
  };
  void add_leaf_uses(const ModuleWriter& modules);
  /// `begin_order_`: leaves of a module by the ops that use them.
  void order_units();
  void add_late_ends(const ModuleWriter& modules);
  static void add_leaf_recomputes(const Recipe& recipe, std::vector<LeafUse>& uses);
  void begin_leaves(std::uint32_t module, Phase phase, std::uint32_t op);
  void end_leaves(std::uint32_t module, Phase phase, std::uint32_t op);

  // fsdp1_gather.cpp
  void add_checkpoints(ModuleWriter& modules);
  void end_recomputation(std::uint32_t module);
  /// Does the loss begin within the module, behind the end of a unit?
  bool parts_loss(std::uint32_t module) const {
    return loss_ && loss_->module == module &&
           (!root_has_loss_ || !lowering_.layout.end_with[module].empty());
  }
  bool root_ends_before_loss() const;
  void end_units(std::uint32_t module);
  void end_root(std::uint32_t module);
  void reach_outputs(std::uint32_t module);
  bool has_work(const Fsdp1Unit& unit) const { return unit.parameters.count > 0; }
  void pre_forward(Fsdp1Unit& unit);
  void post_forward(Fsdp1Unit& unit);
  void reshard_after_forward(Fsdp1Unit& unit);
  void pre_backward(Fsdp1Unit& unit);
  void prefetch_forward(const Fsdp1Unit& unit);
  void prefetch_backward(const Fsdp1Unit& unit);
  void unshard(Fsdp1Unit& unit);
  void cast_shard(Fsdp1Unit& unit);
  void drop_cast(Fsdp1Unit& unit, StreamId used_by);
  void gather(Fsdp1Unit& unit);
  void reshard(Fsdp1Unit& unit, bool frees);
  bool prefetches_forward() const;

  // fsdp1_offload.cpp
  void load(Fsdp1Unit& unit);
  void unload(const Fsdp1Unit& unit, StreamId stream);

  // fsdp1_reduce.cpp
  /// Is the unit resharded by a hook on the gradient of its input? Frozen ones are
  /// (_register_post_backward_reshard_only_hook: nothing where the flat parameter requires one).
  bool ends_at_input(const Fsdp1Unit& unit) const {
    return !unit.is_trained && !unit.is_unused && !unit.is_in_checkpoint;
  }
  void reach_inputs(std::uint32_t module);
  void post_backward(Fsdp1Unit& unit);
  void assemble(Fsdp1Unit& unit);
  void cast(const Fsdp1Unit& unit, const Buffer& from, const Buffer& to, CostId cost,
            StreamId stream);
  void reduce_sharded(Fsdp1Unit& unit);
  void reduce_scatter(Fsdp1Unit& unit, const Buffer& gradient);
  void collect(Fsdp1Unit& unit, const Buffer& reduced, StreamId stream);
  void reduce_whole(Fsdp1Unit& unit);
  bool is_stored(const Fsdp1Unit& unit, const Buffer& gradient) const;
  void scale(const Fsdp1Unit& unit, Role role, const Buffer& buffer, CostId cost, StreamId stream);

  Lowering& lowering_;
  TiedGradients tied_;
  std::optional<LossPlace> loss_;
  bool root_has_loss_;  ///< the root's call ends behind the loss
  Fsdp1Types types_;    ///< of units but those of fp32 adapters
  Fsdp1Sharding sharding_;
  ShardGroups groups_;
  ProcessGroup world_;           ///< of NO_SHARD
  std::int64_t pre_factor_ = 1;  ///< gradients are divided by it before the reduction …
  double post_factor_ = 1;       ///< … and by it afterwards
  StreamId unshard_stream_, pre_unshard_stream_, post_backward_stream_, all_reduce_stream_;
  FreeEventQueue free_events_;
  std::vector<Fsdp1Unit> units_;                 ///< as ShardLayout::units; [0] is the root
  std::vector<std::vector<LeafUse>> leaf_uses_;  ///< by module
  /// By module: the first op of its backward after a recomputation within a unit's checkpoint; 0:
  /// there is none.
  std::vector<std::uint32_t> first_backward_;
  std::deque<Fsdp1Costs> costs_;
  std::vector<Buffer> gradients_;           ///< by row of ShardLayout::parameters; absent: none yet
  std::vector<std::uint32_t> begin_order_;  ///< units as their forward begins
  std::vector<std::uint32_t> forward_order_;  ///< … and as it ended, in this micro-batch
  std::uint32_t rank_ = 0;                    ///< of the shard group, that all are lowered as
  std::vector<OptimizedTensor> optimized_;
  std::vector<CommunicatorId> norm_;
  ModuleWriter* modules_ = nullptr;
  std::vector<Copy> copies_;               ///< under autocast: modules in order, then parameters
  std::vector<std::uint32_t> first_copy_;  ///< by module, in copies_; then their end
  std::vector<AccessedTensor> scratch_;
};

}  // namespace foregather::plan
