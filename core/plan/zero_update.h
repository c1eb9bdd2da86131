// The optimizer step of DeepSpeed's ZeRO: fp32 partitions, updated one after the other.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "core/plan/lowering.h"
#include "core/plan/optimizer_step.h"
#include "core/plan/strategy_schedule.h"

namespace foregather::plan {

/// What one optimizer step updates ("sub group").
struct ZeroPartition {
  std::int64_t elements = 0;
  Buffer parameters;     ///< this rank's, in the compute dtype, contiguous
  Buffer gradients;      ///< what they are read from, in the accumulation dtype
  bool flattens = true;  ///< several tensors: torch's flatten copies them
  /// The gradients' storage and its stream, if it is given back once they are copied. (The stream
  /// waits, as it does before the memory is used again.)
  Buffer freed;
  StreamId freed_on;
};

/// Runs DeepSpeedZeroOptimizer_Stage3.step() (runtime/zero/stage3.py of 0.17.6) and what stage 2
/// has in common with it, from the flattening of gradients to the copy into the parameters: a
/// partition's gradients are flattened (a copy), cast (another), multiplied by the clipping factor
/// (always), given to the optimizer, and freed. The master copy of the parameters and the
/// optimizer's states are in train.master; DeepSpeed has them in fp32.
///
/// With the optimizer offloaded all of these are host memory: the update is host time
/// (host_overhead.h), the new parameters are copied from pageable memory, for which the host waits.
class ZeroUpdate {
 public:
  /// Makes storages; `offloads_parameters`: the partitions' parameters are host memory.
  ZeroUpdate(Lowering& lowering, std::vector<ZeroPartition> partitions, DType accumulated,
             bool offloads_optimizer, bool offloads_parameters);

  /// Allocates the master copies. In section init.
  void init();
  void update();

  /// The partition's gradients on the host, in fp32 (offloaded optimizer).
  const Buffer& host_gradient(std::size_t partition) const { return states_[partition].gradient; }

 private:
  struct State {
    Buffer master;
    Buffer flattened;  ///< in the accumulation dtype, if it is neither a view nor the gradient
    Buffer gradient;   ///< in the master dtype
    Buffer narrowed;   ///< new parameters on the device on their way to the host
    std::unique_ptr<OptimizerStep> step;
    OptimizedTensor tensor;
  };

  void prepare_gradient(const ZeroPartition& partition, const State& state);
  void update_on_device(std::size_t index);
  void update_on_host(std::size_t index);
  void copy(OpKind kind, Role role, const Buffer& from, const Buffer& to);

  Lowering& lowering_;
  std::vector<ZeroPartition> partitions_;
  std::deque<State> states_;
  DType accumulated_;
  bool offloads_optimizer_;
  bool offloads_parameters_;
};

/// Of fp16: whether a gradient of any rank overflowed, a byte that is all-reduced on `stream` and
/// read by the host (has_overflow of stage_1_and_2.py and stage3.py). `flag` has one byte.
void write_overflow_flag(Lowering& lowering, const Buffer& flag, CommunicatorId communicator,
                         StreamId stream);

/// The norm of a list of gradient tensors as get_grad_norm_direct computes it: each is copied to
/// double precision, the sum of squares is all-reduced over `communicator` (if there is one) in
/// `summed` (stage 3: f64, stage 2: f32), and nothing waits for the device.
void write_zero_norm(Lowering& lowering, const std::vector<Buffer>& gradients,
                     const std::vector<Buffer>& doubles, const Buffer& norms,
                     CommunicatorId communicator, DType summed);

}  // namespace foregather::plan
