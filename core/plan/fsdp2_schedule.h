// FSDP2 (torch.distributed.fsdp.fully_shard): parameters sharded one by one, gathered and reduced a
// group at a time. Follows PyTorch 2.13 to 2.15 (reference: PyTorch §C).
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/plan/autocast_copies.h"
#include "core/plan/fsdp2_unit.h"
#include "core/plan/loss_place.h"
#include "core/plan/module_writer.h"
#include "core/plan/strategy_schedule.h"
#include "core/plan/tied_gradients.h"

namespace foregather::plan {

/// A unit's actions happen in host order exactly where PyTorch's hooks have them. What PyTorch
/// keeps as object state between hooks, this class keeps while it writes; nothing depends on time.
///
/// Streams: default (compute, copy-out, gradient copy-in), all_gather_copy_in, all_gather,
/// reduce_scatter (priority −1), all_reduce (hybrid sharding). No record_stream, no rate limiter.
///
/// backward_prefetch: `pre` is FSDP2's own implicit prefetch; `none` and `post` (after the unit's
/// backward, before its reduction) do not exist in PyTorch and answer what-if questions.
/// backward_prefetch_depth > 1: set_modules_to_backward_prefetch of each unit but the root.
/// offload: a unit's shards are copied to the device before they are gathered, its gradient from
/// the device once it is reduced; the host waits for the last one before the optimizer, and for
/// each one that it adds to another micro-batch's.
/// forward_prefetch: set_modules_to_forward_prefetch of each unit but the root to the next ones.
/// Parameters gathered in fp32 that compute in a shorter dtype are torch.autocast without
/// MixedPrecisionPolicy: its cache holds a copy of each matmul's unsharded parameters, a leaf, also
/// behind a reshard, until the forward ends (AutocastCopies); their gradients are cast back.
/// reshard_after_backward = false: set_reshard_after_backward(False) but in the last micro-batch.
class Fsdp2Schedule final : public StrategySchedule {
 public:
  explicit Fsdp2Schedule(Lowering& lowering);

  void init(ModuleWriter& modules) override;
  void begin_forward() override;
  void before_forward(std::uint32_t module) override;
  void after_forward(std::uint32_t module) override;
  void end_forward() override;
  bool acts_between_ops(std::uint32_t module) const override {
    return loss_ && loss_->module == module &&
           (!root_has_loss_ || !lowering_.layout.end_with[module].empty());
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

 private:
  /// CPUOffloadPolicy: shards, their gradients and the optimizer are in pinned host memory.
  bool offloads() const { return lowering_.workload.parallel.offload == Offload::all; }

  // fsdp2_setup.cpp
  void add_units();
  bool is_tail(const UnitPlan& plan) const;
  void find_twins();
  bool is_other_name(const Fsdp2Unit& unit) const;
  void add_parameters(ModuleWriter& modules);
  void add_unit_buffers(Fsdp2Unit& unit);
  DType gathered_type(const ShardedParameter& parameter) const;
  bool has_f8(const Fsdp2Unit& unit) const {
    return unit.gathered_bytes != unit.shard_elements * size_of(types_.gathered);
  }
  bool casts_in(const Fsdp2Unit& unit) const;
  /// One parameter after another, as each is loaded (_get_param_all_gather_inputs).
  bool casts_in_parts(const Fsdp2Unit& unit) const;
  void price(Fsdp2Unit& unit, const Fsdp2Unit* before);
  void add_accumulators(ModuleWriter& modules);

  // fsdp2_autocast.cpp
  void add_copies(ModuleWriter& modules);
  /// The gradient in the gathered dtype.
  Buffer widened(std::uint32_t module, ParameterIndex index, const Buffer& gradient);

  // fsdp2_gather.cpp
  bool has_work(const Fsdp2Unit& unit) const { return unit.parameters.count > 0; }
  bool is_trained(std::uint32_t row) const { return lowering_.layout.parameters[row].trainable; }
  bool root_ends_before_loss() const;
  void end_units(std::uint32_t module);
  void end_root(std::uint32_t module);
  void reach_outputs(std::uint32_t module);
  void pre_forward(Fsdp2Unit& unit);
  void post_forward(Fsdp2Unit& unit);
  void pre_backward(Fsdp2Unit& unit);
  void unshard(Fsdp2Unit& unit);
  void gather(Fsdp2Unit& unit);
  void wait_for_unshard(Fsdp2Unit& unit, bool in_forward);
  void copy_out(Fsdp2Unit& unit);
  void cast_alone(const Fsdp2Unit& unit, std::uint32_t row, const Buffer& shard, StreamId stream);
  void copy_out_alone(Fsdp2Unit& unit);
  void reshard(Fsdp2Unit& unit);
  void keep_part(Fsdp2Unit& unit);
  void prefetch_backward(Fsdp2Unit& unit);
  void prefetch_forward(const Fsdp2Unit& unit);
  void flush_held_gather();
  void gather_streams_wait(EventId event);

  // fsdp2_reduce.cpp
  Buffer cast_gradient(std::uint32_t row, const Buffer& gradient);
  /// Casts an unsharded gradient into a buffer in the reduce dtype, and frees it.
  void move_reduced(const Fsdp2Unit& unit, Role role, const Buffer& from, const Buffer& to);
  void post_backward(Fsdp2Unit& unit);
  void finalize(Fsdp2Unit& unit);
  bool reshards_after_backward() const;
  void accumulate_wider(std::uint32_t row, const Buffer& gradient);
  void drain_reduce_inputs(std::size_t most);
  void reduce(Fsdp2Unit& unit);
  void fill_reduce_input(Fsdp2Unit& unit);
  StreamId communicate(Fsdp2Unit& unit, const Buffer& output);
  void collect(Fsdp2Unit& unit, const Buffer& output, StreamId stream);
  void add_to_gradient(Fsdp2Unit& unit, const Buffer& from, StreamId stream);
  void drop_reduced(const Buffer& output);

  // fsdp2_offload.cpp
  Buffer load(std::uint32_t row, StreamId stream);
  void unload(Fsdp2Unit& unit, StreamId stream, bool adds);

  Lowering& lowering_;
  TiedGradients tied_;
  std::optional<LossPlace> loss_;
  bool root_has_loss_;  ///< the root's call ends behind the loss
  Fsdp2Types types_;
  ShardGroups groups_;
  ProcessGroup kept_group_;  ///< of an integer reshard
  CommunicatorId reduce_communicator_;
  StreamId copy_in_stream_, gather_stream_, reduce_stream_, all_reduce_stream_;
  std::vector<Fsdp2Unit> units_;  ///< as ShardLayout::units; [0] is the root
  std::deque<Fsdp2Costs> costs_;
  // By row of ShardLayout::parameters:
  std::vector<Buffer> shards_, full_;
  std::vector<Buffer> kept_;          ///< parts of an integer reshard
  std::vector<Buffer> casts_;         ///< one by one: of a world of one, of offloaded shards
  std::vector<Buffer> loaded_;        ///< offloaded shards on the device
  std::vector<Buffer> gradients_;     ///< unsharded, Fsdp2Types::gradient(); absent: none yet
  std::vector<Buffer> accumulators_;  ///< unsharded, in the reduce dtype (no_sync, casts)
  /// What is cast and added to them (casts); of a tied parameter two shares at once.
  std::vector<std::array<Buffer, 2>> addends_;
  std::optional<AutocastCopies> copies_;       ///< absent: no autocast
  std::vector<Owner> owners_;                  ///< by row, under autocast
  std::vector<Buffer> wide_gradients_;         ///< of places, under autocast
  std::vector<std::uint32_t> first_gradient_;  ///< by module, in wide_gradients_
  /// The last module that has the parameter, its index there, and the gradient buffer of that
  /// place.
  struct LastPlace {
    std::uint32_t module = 0;
    ParameterIndex index = 0;
    Buffer gradient;
  };
  std::vector<LastPlace> last_place_;  ///< filled where gradients accumulate unsharded
  bool accumulates_in_place_ = false;  ///< no_sync and the gradient has the reduce dtype
  bool accumulates_wider_ = false;     ///< … and has another, narrower one
  bool has_accumulated_ = false;       ///< accumulators_ hold gradients
  std::vector<OptimizedTensor> optimized_;
  std::vector<CommunicatorId> norm_;
  ModuleWriter* modules_ = nullptr;

  // State across units.
  std::optional<std::uint32_t>
      held_gather_;  ///< unit whose all-gather output waits for the next copy-out
  std::vector<std::uint32_t> forward_order_;   ///< units in the order in which their forward ended
  std::deque<std::uint32_t> held_inputs_;      ///< units whose reduce-scatter input is held
  std::optional<std::uint32_t> last_reduced_;  ///< in this backward
  std::vector<Buffer> held_outputs_;  ///< all-reduced buffers of this backward (hybrid sharding)
  std::vector<AccessedTensor> scratch_;
};

}  // namespace foregather::plan
