// Thunder's FSDP: ZeRO-2 and ZeRO-3 as a traced program of gathers, waits and reductions. Follows
// lightning-thunder until mid-2025 (reference: Thunder §B.1, B.3, B.6 to B.8, B.11).
#pragma once

#include <map>
#include <span>
#include <vector>

#include "core/plan/module_writer.h"
#include "core/plan/process_groups.h"
#include "core/plan/strategy_schedule.h"

namespace foregather::plan {

/// The gathers of a pass come in the order in which parameters are first used. ZeRO-3: at most
/// three are issued and not waited for (limit_in_flight_allgathers); a gathered parameter is
/// deleted after its last use of the pass, and gathered again for the backward. ZeRO-2: all are
/// issued before the first is waited for, and what the backward uses stays. Gradients are divided
/// into new tensors and reduce-scattered at once; the waits come last.
///
/// Buckets (layer, block: by parameters' names): shards are packed into one buffer, gathered into
/// another, and copied out, when the buffers go; gradients, once all of a bucket are there, are
/// packed and reduced as one, and live on until the reduction is waited for at the end.
///
/// Everything is allocated on the compute stream; collectives run on the process group's own, and
/// inputs that are deleted behind them are record_stream'ed to it, as PyTorch did then.
class ThunderSchedule final : public StrategySchedule {
 public:
  explicit ThunderSchedule(Lowering& lowering);

  void init(ModuleWriter& modules) override;
  bool acts_between_ops(std::uint32_t /*module*/) const override { return true; }
  void begin_forward() override { begin_pass(false); }
  void before_op(std::uint32_t module, Phase phase, std::uint32_t op) override;
  void after_op(std::uint32_t module, Phase phase, std::uint32_t op) override;
  void begin_backward() override { begin_pass(true); }
  void gradient_ready(std::uint32_t module, ParameterIndex index, const Buffer& gradient) override;
  void end_backward() override;
  void drop_gradients() override;
  std::span<const OptimizedTensor> optimized() const override { return optimized_; }
  std::span<const CommunicatorId> norm_communicators() const override { return norm_; }

 private:
  /// Where an op is in a pass.
  struct Place {
    std::uint32_t module = 0;
    std::uint32_t op = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  struct Parameter {
    Owner owner;
    std::int64_t shard = 0;  ///< elements, rows padded
    Buffer part, full, averaged, gradient, added;
    std::uint32_t bucket = 0;
    std::uint32_t shares = 0;
    // State.
    bool is_gathered = false;
    bool has_gradient = false;
    std::uint32_t arrived = 0;
    Buffer held;
  };
  struct Bucket {
    std::vector<std::uint32_t> rows;
    Buffer packed, gathered;           ///< absent for a parameter alone
    Buffer to_reduce, reduced, added;  ///< the same of gradients
    EventId was_gathered;
    bool is_issued = false;
    std::size_t missing = 0;  ///< gradients, in this backward
  };
  /// A forward or a backward: which buckets it gathers, and what it uses when.
  struct Pass {
    std::vector<std::uint32_t> order;                   ///< buckets by first use
    std::map<Place, std::vector<std::uint32_t>> first;  ///< buckets that are needed from there
    std::map<Place, std::vector<std::uint32_t>> last;   ///< rows that are not needed behind it
    std::vector<bool> uses;                             ///< by row
  };

  // thunder_setup.cpp
  void add_parameters();
  void add_buckets();
  void add_buffers(Bucket& bucket);
  void plan_pass(bool backward);
  bool is_zero3() const;
  bool is_bucketed() const {
    return lowering_.workload.parallel.thunder_bucketing != ThunderBucketing::none;
  }

  // thunder_pass.cpp
  void begin_pass(bool backward);
  void issue(std::uint32_t bucket);
  void await(std::uint32_t bucket);
  void collective(OpKind kind, const Bucket& bucket, const Buffer& from, const Buffer& to);
  void copy(Role role, const Bucket& bucket, std::span<const AccessedTensor> accesses, Bytes bytes);
  void reduce(Bucket& bucket);
  void add(const Parameter& parameter, const Buffer& from, const Buffer& to);

  Lowering& lowering_;
  DType type_;
  ProcessGroup world_;
  StreamId nccl_;
  ModuleWriter* modules_ = nullptr;
  std::vector<Parameter> parameters_;  ///< by row of ShardLayout::parameters
  std::vector<Bucket> buckets_;
  Pass forward_, backward_;
  std::vector<OptimizedTensor> optimized_;
  std::vector<CommunicatorId> norm_;

  // State.
  const Pass* pass_ = nullptr;
  std::size_t issued_ = 0;  ///< of the pass's order
  std::size_t waited_ = 0;
  std::vector<std::uint32_t> reductions_;  ///< buckets that are not waited for
  std::vector<AccessedTensor> scratch_;
};

}  // namespace foregather::plan
