// DeepSpeed's DeepCompile with ZeRO-3: collectives as nodes of the compiled graphs. Follows
// deepspeed/compile/passes/zero3_compile.py and csrc/compile (reference: DeepCompile §C.2, §C.8).
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/plan/module_writer.h"
#include "core/plan/process_groups.h"
#include "core/plan/strategy_schedule.h"
#include "core/plan/zero_update.h"

namespace foregather::plan {

/// Writes the graphs as zero3_compile leaves them before any scheduling: in each forward and each
/// backward all gathers stand at the head, in the order of the parameters, each with its wait. The
/// passes order=fast-free, prefetch=budget and selective-gather (sim/passes) schedule them.
///
/// Streams: default, ag, rs, copy; one NCCL communicator of DeepCompile's own. A gather waits for
/// what compute has so far; its buffer, padded to the world size, comes from ag's pool, is
/// record_stream'ed to compute and freed behind its last use. With symmetric_memory the shard is
/// copied to a workspace first (as large as the largest shard); the copies from the peers are
/// priced as an all-gather, their barriers left out.
///
/// torch.autocast (parameters stored and gathered in fp32, another compute dtype): before its first
/// matmul in a graph a parameter is cast, and the gathered one freed; the cast copy lives until its
/// last use in that graph, and its gradient is cast back. Norms, biases outside matmuls and
/// embeddings read fp32.
///
/// No parameter persists (init_z3 sets ds_persist to false): the thresholds have no effect.
///
/// Gradients are copied into a bucket on stream copy and live until it is flushed: when the next
/// one would overflow it, and at the end of the backward. A flush divides by the world size and
/// reduce-scatters all of them as one collective on rs. Buckets (two with double_buffer) exist from
/// the first gradient of a backward to its end, where the host waits for rs. Compute waits for a
/// bucket's last flush before it is filled again. A gradient larger than
/// the bucket makes all buckets as large from the start (DeepCompile: enlarges the one in use).
///
/// Left out: offloading, free_activation.
class DeepCompileSchedule final : public StrategySchedule {
 public:
  explicit DeepCompileSchedule(Lowering& lowering);

  void init(ModuleWriter& modules) override;
  void begin_forward() override { begin_graph(forward_); }
  void begin_backward() override { begin_graph(backward_); }
  bool acts_between_ops(std::uint32_t /*module*/) const override { return true; }
  void before_op(std::uint32_t module, Phase phase, std::uint32_t op) override;
  void after_op(std::uint32_t module, Phase phase, std::uint32_t op) override;
  void gradient_ready(std::uint32_t module, ParameterIndex index, const Buffer& gradient) override;
  void end_backward() override;
  bool has_own_optimizer() const override { return true; }
  void optimizer_phase() override;
  void drop_gradients() override {}

 private:
  using Place = std::pair<std::uint32_t, std::uint32_t>;  ///< module, op of its pass

  struct Parameter {
    Owner owner;
    std::int64_t elements = 0;
    std::int64_t shard = 0;     ///< of this rank, padded
    Buffer partition;           ///< view of the flat buffer of shards; a storage if frozen
    Buffer full;                ///< gathered, padded
    Buffer computed;            ///< autocast's copy
    Buffer gradient_partition;  ///< view of the flat one
    Buffer cast_gradient;       ///< in the dtype of the reduction
    Buffer received;            ///< of a reduction that is added or cast
    std::uint32_t shares = 0;   ///< places that give a gradient
    bool trained = false;
    // State.
    std::uint32_t arrived = 0;
    Buffer held;  ///< the gradient so far
  };
  /// What a forward or a backward does to parameters, before and after which op.
  struct GraphPlan {
    std::vector<std::uint32_t> rows;                                       ///< gathered
    std::map<Place, std::vector<std::uint32_t>> cast;                      ///< before
    std::map<Place, std::vector<std::uint32_t>> drop_computed, drop_full;  ///< after
    std::vector<bool> read_uncast;                                         ///< by row
  };

  // deepcompile_setup.cpp
  void add_parameters();
  void place_parameters();
  void add_partitions();
  void add_buckets();
  void plan_graph(GraphPlan& graph, bool backward);
  bool is_cast(std::uint32_t module, ParameterIndex index) const;

  // deepcompile_graph.cpp
  void begin_graph(GraphPlan& graph);
  void gather(const Parameter& parameter);
  void make_computed(const Parameter& parameter);
  void drop_full(const Parameter& parameter);
  void add_to_bucket(std::uint32_t row, const Buffer& gradient);
  void flush();
  void move(OpKind kind, Role role, StreamId stream, const Parameter& parameter, const Buffer& from,
            const Buffer& to);
  void add(StreamId stream, const Parameter& parameter, const Buffer& from, const Buffer& to);

  bool is_alone() const { return world_.ranks == 1; }

  Lowering& lowering_;
  DType type_;         ///< of parameters, gathered or not
  DType reduced_;      ///< of the reduction
  DType accumulated_;  ///< of the partition of gradients
  ProcessGroup world_;
  CommunicatorId communicator_;  ///< DeepCompile's own
  StreamId ag_, rs_, copy_;
  ModuleWriter* modules_ = nullptr;
  std::vector<Parameter> parameters_;  ///< by row of ShardLayout::parameters
  std::vector<std::uint32_t> trained_;
  Buffer partitions_, gradient_partitions_;
  Buffer workspace_;  ///< of symmetric memory
  std::vector<EventId> was_gathered_;
  std::vector<Buffer> buckets_;
  std::vector<EventId> was_flushed_;  ///< by bucket
  std::unique_ptr<ZeroUpdate> update_;
  std::vector<Buffer> norm_doubles_;  ///< of trained_
  Buffer norms_;
  GraphPlan forward_, backward_;

  // State.
  GraphPlan* graph_ = nullptr;
  bool has_buckets_ = false;
  std::size_t bucket_ = 0;
  std::size_t flushes_ = 0;  ///< of this backward
  Bytes used_ = 0;           ///< of the bucket
  struct Pending {
    std::uint32_t row = 0;
    Buffer gradient;
  };
  std::vector<Pending> pending_;
  std::vector<AccessedTensor> scratch_;
};

}  // namespace foregather::plan
