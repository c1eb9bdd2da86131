// What a data-parallel strategy adds to the modules' own work.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/lowering.h"

namespace foregather::plan {

class ModuleWriter;

/// A parameter as the optimizer sees it on one rank.
struct OptimizedTensor {
  Buffer parameter;
  Buffer gradient;  ///< shared by the parameters of a unit where gradients are views
  Bytes gradient_offset = 0;
  std::int64_t elements = 0;
  Owner owner;
};

/// Hooks in the order in which a step calls them. Forward hooks append to the main thread, backward
/// hooks to the autograd thread; the Lowering says which micro-batch and phase it is.
class StrategySchedule {
 public:
  virtual ~StrategySchedule() = default;

  /// Persistent storages, in section init. Tells the writer where parameters are.
  virtual void init(ModuleWriter& modules) = 0;

  virtual void begin_forward() {}
  virtual void before_forward(std::uint32_t /*module*/) {}
  virtual void after_forward(std::uint32_t /*module*/) {}
  /// Does the strategy act between the ops of the module? Then before_op and after_op are called
  /// for each op `op` of the module's forward (of its backward with recomputation, by `phase` of
  /// the op): before its allocations, and after what is freed behind it.
  virtual bool acts_between_ops(std::uint32_t /*module*/) const { return false; }
  virtual void before_op(std::uint32_t /*module*/, Phase /*phase*/, std::uint32_t /*op*/) {}
  virtual void after_op(std::uint32_t /*module*/, Phase /*phase*/, std::uint32_t /*op*/) {}
  virtual void end_forward() {}
  virtual void begin_backward() {}
  virtual void before_backward(std::uint32_t /*module*/) {}
  /// Parameter `index` of `module` has got this module's share of its gradient, in `gradient`,
  /// which the strategy owns from now on.
  virtual void gradient_ready(std::uint32_t module, ParameterIndex index,
                              const Buffer& gradient) = 0;
  virtual void after_backward(std::uint32_t /*module*/) {}
  virtual void end_backward() {}

  /// Does the strategy write all that follows the last backward itself (norm, optimizer, what it
  /// does to parameters)? Then optimizer_phase() is called instead of clipping and the optimizer.
  virtual bool has_own_optimizer() const { return false; }
  virtual void optimizer_phase() {}
  /// After the optimizer of the first step.
  virtual void end_first_step() {}
  /// zero_grad(set_to_none=True), at the begin of each step but the first.
  virtual void drop_gradients() = 0;
  /// What the optimizer updates; valid after init(). Nothing where the strategy has its own.
  virtual std::span<const OptimizedTensor> optimized() const { return {}; }
  /// The communicators over which a norm of all gradients is summed, one after the other.
  virtual std::span<const CommunicatorId> norm_communicators() const { return {}; }
  /// Does clipping launch one op a tensor (FSDP1's own clip_grad_norm_) instead of foreach ops?
  virtual bool clips_by_tensor() const { return false; }
  /// Does the first step issue its ops in another order than the others? If not, section body is a
  /// copy of section first, and step_copied() tells how far the main thread's actions have moved.
  virtual bool first_step_differs() const { return false; }
  virtual void step_copied(std::uint32_t /*main_shift*/) {}
  /// Both sections are complete.
  virtual void finish() {}
};

}  // namespace foregather::plan
