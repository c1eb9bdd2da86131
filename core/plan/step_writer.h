// Puts a training step together: micro-batches, threads, sections.
#pragma once

#include "core/plan/lowering.h"
#include "core/plan/module_writer.h"
#include "core/plan/old_outputs.h"
#include "core/plan/optimizer_step.h"
#include "core/plan/strategy_schedule.h"

namespace foregather::plan {

/// A step of a torchtitan-like loop: zero_grad, then for each micro-batch forward and backward,
/// then clipping and the optimizer; nothing waits for the device. The forward and the optimizer run
/// on the main thread, backward on the autograd thread while the main one waits, as in PyTorch.
class StepWriter {
 public:
  StepWriter(Lowering& lowering, ModuleWriter& modules, StrategySchedule& strategy,
             OptimizerStep& optimizer);

  /// Writes the sections first and body.
  void write();

 private:
  void micro_batches(Section section);
  void forward();
  void backward(Section section);
  void load_batch();
  void finish_first();
  void finish_body();
  void read_loss();
  void for_dtensors(Ns time);
  void clip();
  void copy_step();
  void append(std::uint32_t thread, std::uint32_t first, std::uint32_t end);

  Lowering& lowering_;
  GraphBuilder& builder_;
  ModuleWriter& modules_;
  StrategySchedule& strategy_;
  OptimizerStep& optimizer_;
  OldOutputs old_outputs_;
  CostId batch_cost_, loss_cost_;
  // Of section first: where the micro-batches end, and the optimizer's parts.
  std::vector<std::uint32_t> waits_;  ///< of the autograd thread for the main one
  std::uint32_t batches_end_ = 0;
  Range clip_, update_;
};

}  // namespace foregather::plan
