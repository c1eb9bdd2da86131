// DDP (torch.nn.parallel.DistributedDataParallel): whole parameters on every rank, gradients
// reduced in buckets behind the backward. Follows torch/csrc/distributed/c10d/reducer.cpp of
// PyTorch 2.9 to 2.15, checked against recordings (tests/oracles, ddp.json).
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/plan/autocast_copies.h"
#include "core/plan/ddp_buckets.h"
#include "core/plan/ddp_buffers.h"
#include "core/plan/module_writer.h"
#include "core/plan/process_groups.h"
#include "core/plan/strategy_schedule.h"
#include "core/plan/tied_gradients.h"

namespace foregather::plan {

/// Buckets live from the begin to the end of the job. A gradient that is complete is divided into
/// its place of a bucket by one kernel on the compute stream; a bucket that is complete, and all
/// before it, is all-reduced on the process group's own stream (asynchronous collectives are not
/// launched on the caller's). When backward ends the compute stream waits for each bucket and
/// copies it back, parameter by parameter. With gradient_as_bucket_view gradients are the buckets:
/// nothing is copied back, and what autograd made is freed once it is in its bucket.
///
/// The first reduction uses one bucket. Then buckets are rebuilt in the order in which gradients
/// became ready: rank 0 broadcasts its order and the buckets' sizes, for which the host waits.
/// PyTorch does that in the next forward. Section body must be a steady step, so where that forward
/// is the second step's, here it is the end of the first step; the state that it leaves is the
/// same. With gradient_as_bucket_view the first bucket is laid out in the memory of the later ones,
/// so that the optimizer finds gradients at one place in both sections. With find_unused_parameters
/// nothing is rebuilt: buckets follow the order of the parameters, the last one first, and behind
/// the last bucket goes an all-reduce of a number for each parameter, whether it was used.
///
/// The first forward of a step begins with the broadcast of a model's buffers; those of later
/// micro-batches too, unless they follow one that did not reduce.
///
/// Mixed precision is torch.autocast over stored fp32 parameters, with a cache (AutocastCopies);
/// the gradients of what matmuls read are cast back. All other parameters are used as stored. There
/// is no zeroing of unused parameters (and no host time of looking for them), no broadcast of
/// parameters, which DDP sends once when it is made, no communication hook.
///
/// Strategy::single is the same without DDP: no buckets, gradients are what autograd makes.
/// Compiled as a whole its backward is one node of autograd (torch/_functorch/_aot_autograd, and
/// Thunder's function): all gradients are there before the first is added to what other
/// micro-batches made.
class DdpSchedule final : public StrategySchedule {
 public:
  explicit DdpSchedule(Lowering& lowering);

  void init(ModuleWriter& modules) override;
  void begin_forward() override;
  void before_forward(std::uint32_t module) override;
  void after_forward(std::uint32_t module) override;
  void end_forward() override;
  void begin_backward() override;
  void before_backward(std::uint32_t module) override;
  void gradient_ready(std::uint32_t module, ParameterIndex index, const Buffer& gradient) override;
  void after_backward(std::uint32_t module) override;
  void end_backward() override;
  void end_first_step() override;
  void drop_gradients() override;
  std::span<const OptimizedTensor> optimized() const override { return optimized_; }
  bool first_step_differs() const override { return reduces_; }

 private:
  /// A parameter of a module.
  struct Place {
    std::uint32_t module = 0;
    ParameterIndex index = 0;
    std::uint32_t row = 0;  ///< of ShardLayout::parameters
    bool is_cast = false;   ///< read in the compute dtype
    bool is_first = false;  ///< the backward gets here first, of all places with this row
    Buffer gradient;        ///< in the stored dtype, freed when it is added or copied
  };
  struct Bucket {
    Buffer buffer;
    EventId was_reduced;
    std::size_t missing = 0;  ///< gradients, in this backward
  };

  // ddp_setup.cpp
  void add_parameters();
  void add_places();
  std::vector<std::uint32_t> ready_order() const;
  void add_buckets();
  void add_optimized();

  bool keeps_gradient(std::uint32_t row) const;
  Buffer target(const Place& place) const;

  // ddp_reduce.cpp
  /// Does this micro-batch's backward fill buckets?
  bool fills_buckets() const { return reduces_ && !lowering_.is_unsynchronised(); }
  void accumulate(std::uint32_t row, const Buffer& gradient);
  void add_to_gradient(std::uint32_t row, const Buffer& gradient);
  void add(const Buffer& from, const AccessedTensor& to, const Owner& owner);
  void reduce_ready_buckets();
  void reduce_used_map();
  void reduce(std::uint32_t bucket);
  void copy_back(std::uint32_t bucket);
  void rebuild();
  void broadcast(const Buffer& buffer);
  /// Copies the host's numbers to the device, and sends them from there.
  void send_numbers(OpKind kind, const Buffer& buffer);
  void copy_numbers(OpKind kind, const AccessedTensor& access);
  AccessedTensor in_bucket(std::uint32_t row, Access mode) const;
  std::vector<AccessedTensor> whole_bucket(std::uint32_t bucket) const;
  const BucketPlan& plan() const { return is_rebuilt_ ? rebuilt_plan_ : first_plan_; }

  Lowering& lowering_;
  TiedGradients tied_;
  DType stored_ = DType::f32;  ///< of what is trained
  bool reduces_ = true;        ///< false: Strategy::single
  bool views_ = false;         ///< gradient_as_bucket_view
  bool finds_unused_ = false;  ///< find_unused_parameters
  bool is_one_node_ = false;   ///< all of the model's backward is, to autograd
  ProcessGroup world_;
  StreamId communication_;
  ModuleWriter* modules_ = nullptr;
  std::optional<AutocastCopies> copies_;
  std::vector<Place> places_;               ///< modules in order, parameters in order
  std::vector<std::uint32_t> first_place_;  ///< by module, in places_
  std::vector<Owner> row_owners_;
  std::vector<std::uint32_t> trained_;  ///< rows that have gradients: DDP knows no others
  std::vector<Buffer> parameters_;      ///< by row, in the stored dtype
  std::vector<Buffer> gradients_;       ///< by row: .grad where it is no view of a bucket
  BucketPlan first_plan_, rebuilt_plan_;
  Bucket first_bucket_;  ///< its buffer is absent with gradient_as_bucket_view
  std::vector<Bucket> buckets_;
  Bucket used_map_;  ///< of find_unused_parameters
  std::optional<BufferBroadcast> buffer_broadcast_;
  std::vector<OptimizedTensor> optimized_;

  // State.
  bool is_rebuilt_ = false;
  bool has_reduced_ = false;
  std::vector<bool> has_gradient_;  ///< by row: .grad is in gradients_
  std::vector<bool> is_view_;       ///< by row: .grad is in its bucket
  std::uint32_t next_bucket_ = 0;   ///< to be reduced in this backward
  /// Of a backward of one node: by row, to be added when it ends.
  std::vector<std::pair<std::uint32_t, Buffer>> waiting_;
  std::vector<AccessedTensor> scratch_;
};

}  // namespace foregather::plan
