// DeepSpeed ZeRO-3, eager: parameters sharded one by one, gathered by hooks on submodules. Follows
// DeepSpeed 0.17.6 (runtime/zero/{parameter_offload,partition_parameters,stage3}.py, read).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/plan/module_writer.h"
#include "core/plan/process_groups.h"
#include "core/plan/strategy_schedule.h"
#include "core/plan/tied_gradients.h"
#include "core/plan/zero3_coordinator.h"
#include "core/plan/zero3_shards.h"
#include "core/plan/zero3_submodules.h"
#include "core/plan/zero_update.h"

namespace foregather::plan {

/// Zero3Coordinator decides, this class acts: allocations, copies, collectives and waits stand in
/// host order where DeepSpeed has them.
///
/// Streams: default; all_gather and reduce (both are the default stream without overlap_comm);
/// nccl, where PyTorch runs the asynchronous all-gathers of one process group (nccl_hpz: those of
/// the secondary partition). Reduce-scatters are synchronous calls: they run on the reduce stream.
///
/// Gathered parameters: a single one is gathered into its own (padded) buffer. Several are gathered
/// into one flat buffer, from which each gets its own when the first of them is needed; the flat
/// buffer lives until the last of them has been needed, because their handles hold it. All of these
/// belong to the all-gather stream and are record_stream'ed to the default one when released. The
/// host waits so that at most three parameters are waited for at one time, and before a fourth
/// bucket of gradients is reduced.
///
/// Gradients are copied into one bucket (contiguous_gradients), which lives for the whole job; when
/// it is full they are concatenated into another buffer, divided, reduce-scattered in place, and
/// copied or added to this rank's partition of all gradients. After each backward the host waits
/// for the reduce stream.
///
/// hpZ: the first release after an optimizer step copies a secondary shard and waits for the
/// device; later gathers in that step use it, within groups of hpz_partition_size ranks.
///
/// Left out: NVMe, quantised weights and gradients, MiCS, leaf modules, external parameters.
/// Buffers of concatenated parameters are as long as padded ones (at most world − 1 elements more).
class Zero3Schedule final : public StrategySchedule {
 public:
  explicit Zero3Schedule(Lowering& lowering);

  void init(ModuleWriter& modules) override;
  void begin_forward() override;
  void end_forward() override;
  void begin_backward() override;
  bool acts_between_ops(std::uint32_t /*module*/) const override { return true; }
  void before_op(std::uint32_t module, Phase phase, std::uint32_t op) override;
  void after_op(std::uint32_t module, Phase phase, std::uint32_t op) override;
  void gradient_ready(std::uint32_t module, ParameterIndex index, const Buffer& gradient) override;
  void end_backward() override;
  bool has_own_optimizer() const override { return true; }
  void optimizer_phase() override;
  void drop_gradients() override {}
  bool first_step_differs() const override { return true; }

 private:
  using Rows = Zero3Coordinator::Rows;

  /// A parameter.
  struct Parameter {
    Owner owner;
    std::int64_t elements = 0;
    std::int64_t shard = 0;  ///< of this rank, padded
    Buffer partition;        ///< view of the flat buffer of shards
    Buffer loaded;           ///< an offloaded partition on the device
    Buffer full;             ///< the gathered parameter
    Buffer secondary;        ///< hpZ
    Buffer gradient_partition;
    Buffer cast_gradient, cast_partition;  ///< around a reduction in another dtype
    Buffer added;                          ///< a partition in the accumulation dtype
    SubGroups::Place place;
    // State.
    bool has_secondary = false;
    std::size_t gather = 0;  ///< in gathers_, while in flight
  };
  /// A gather of one or more parameters: what is made for it, once.
  struct GatherPlan {
    Buffer flat;  ///< absent: a single parameter
    EventId was_gathered;
  };
  /// One that is under way.
  struct Gather {
    Rows rows;
    const GatherPlan* plan = nullptr;
    bool is_loaded = false;  ///< `loaded` of its only parameter is bound
    bool is_complete = false;
    std::size_t awaited = 0;  ///< of its parameters
  };
  /// What a flush reduces: views of the bucket or gradients of their own.
  struct Pending {
    std::uint32_t row = 0;
    Buffer gradient;
    bool is_in_bucket = false;
  };

  /// A ring of events: the host waits for the one three recordings ago.
  struct Throttle {
    std::vector<EventId> events;
    std::size_t recorded = 0;  ///< since the host last waited for the stream
    void wait(GraphBuilder& builder) const;
    void record(GraphBuilder& builder, StreamId stream);
  };

  // zero3_setup.cpp
  void add_parameters();
  void add_submodules();
  void add_partitions();
  void add_gradient_buffers();
  void add_norms();
  void place_parameters();
  bool offloads_parameters() const;
  bool offloads_optimizer() const;
  bool is_alone() const { return world_.ranks == 1; }
  /// Are there buffers of gathered parameters (else compute reads the partitions)?
  bool gathers() const { return !is_alone() || offloads_parameters(); }

  // zero3_gather.cpp
  void enter(std::uint32_t submodule);
  void leave(std::uint32_t submodule);
  void gather(const Rows& rows);
  void gather_from(const Rows& rows, bool secondary);
  void load(Parameter& parameter);
  void await(std::uint32_t row);
  void complete(Gather& gather);
  void release(const Rows& rows);
  void keep_secondary(Parameter& parameter);
  void compute_waits();
  const GatherPlan& plan_of(const Rows& rows, bool secondary);

  // zero3_reduce.cpp
  void add_to_bucket(std::uint32_t row, const Buffer& gradient);
  void flush();
  std::vector<Buffer> cast_pending();
  std::vector<Buffer> parts_of(const Buffer& flat);
  void reduce_scatter_pending();
  Buffer concatenate(const std::vector<Buffer>& gradients);
  void reduce_bucket();
  void collect(Parameter& parameter, const Buffer& reduced);
  void offload_gradient(Parameter& parameter, const Buffer& reduced);
  void move(OpKind kind, Role role, StreamId stream, const Parameter& parameter, const Buffer& from,
            const Buffer& to);
  void add_to(StreamId stream, const Parameter& parameter, const Buffer& from, const Buffer& to);

  // zero3_step.cpp
  void check_overflow();
  void norm();
  void gather_persistent();

  Lowering& lowering_;
  TiedGradients tied_;
  DType type_;         ///< of parameters, gathered or not, and of gradients
  DType reduced_;      ///< of communication
  DType accumulated_;  ///< of the partition of gradients
  ProcessGroup world_, secondary_;
  StreamId gather_stream_, reduce_stream_, nccl_, nccl_secondary_;
  ModuleWriter* modules_ = nullptr;
  std::vector<Parameter> parameters_;  ///< by row of ShardLayout::parameters
  std::unique_ptr<Zero3Coordinator> coordinator_;
  std::unique_ptr<ZeroUpdate> update_;
  std::vector<std::uint32_t> trained_;  ///< rows that have gradients
  Buffer partitions_;                   ///< their shards; those of frozen parameters lie apart
  Buffer gradient_partitions_;
  Buffer bucket_;
  std::vector<Buffer> norm_doubles_;  ///< by row; absent for frozen parameters
  Buffer norms_;
  Buffer overflow_, overflow_flag_;  ///< fp16
  struct HookTable {
    std::vector<SubmoduleSpan> spans;
    std::vector<std::uint32_t> submodules;  ///< of the coordinator, by index of spans' submodule
  };
  std::vector<HookTable> hooks_;  ///< by module
  std::uint32_t root_submodule_ = 0;

  // State.
  std::map<std::pair<Rows, bool>, GatherPlan> plans_;
  std::deque<Gather> gathers_;
  std::size_t first_gather_ = 0;  ///< number of gathers_.front()
  bool compute_is_behind_ = false;
  Throttle awaits_, reductions_;
  std::vector<Pending> pending_;
  std::int64_t bucket_elements_ = 0;
  std::map<std::vector<std::uint32_t>, Buffer> concatenated_;  ///< by rows
  std::vector<AccessedTensor> scratch_;
};

}  // namespace foregather::plan
