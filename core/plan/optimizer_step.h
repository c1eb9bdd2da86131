// The optimizer's ops, states and temporaries.
#pragma once

#include <span>
#include <vector>

#include "core/plan/lowering.h"
#include "core/plan/strategy_schedule.h"

namespace foregather::plan {

/// Of int8 states.
inline constexpr std::int64_t kBlockOfStates = 256;
inline constexpr std::int64_t kFewestOfBlockStates = 4096;

/// Of int8 states of a parameter of so many elements: have they a scale for each block?
bool has_block_states(const Train& train, std::int64_t elements);
/// Of each of the states of a parameter of so many elements, without scales.
Bytes bytes_of_state(const Train& train, std::int64_t elements);

/// AdamW and SGD with momentum as torch.optim runs them on CUDA (torch/optim/adam.py, sgd.py), each
/// as one foreach call over all parameters, as one fused kernel family, or as a loop over the
/// parameters. States are in the parameters' dtype, or in Train::optimizer_state, and are made when
/// step() first runs; `step` counters of the foreach AdamW and of the loop are host tensors.
///
/// foreach AdamW allocates one temporary a parameter (the square roots) and frees all when it ends.
/// The loop has the square roots of one parameter, their quotient, and that of the parameter before
/// until its own is there (`denom`).
/// SGD's momentum buffers begin as clones of the gradients.
///
/// States of another dtype than the parameters' are updated as torchao's optimizers do
/// (torchao/optim/adam.py): compiled, one kernel a parameter, no temporaries. int8 states
/// (torchao/optim/subclass_8bit.py) are bytes with an fp32 scale for each block of 256; a parameter
/// of fewer than 4,096 elements, or of no whole number of blocks, has states in the parameters'
/// dtype.
class OptimizerStep {
 public:
  /// Makes the storages of states and temporaries. `tensors` outlives the step.
  OptimizerStep(Lowering& lowering, std::span<const OptimizedTensor> tensors);

  /// What only the first step does: allocates states and fills them.
  void create_states();
  void update();
  /// Is update() of the first step the same as that of the others?
  bool first_update_is_usual() const;
  /// update() of the first step, where it is not.
  void first_update();

 private:
  struct State {
    Buffer first;                      ///< AdamW: mean of gradients; SGD: momentum
    Buffer second;                     ///< AdamW: mean of squares
    Buffer first_scale, second_scale;  ///< int8 states
    Buffer step;                       ///< fused AdamW: a device scalar
    Buffer temporary;                  ///< AdamW but for the fused one
    Buffer root;                       ///< AdamW's loop
  };
  enum class List : std::uint8_t {
    parameter,
    gradient,
    first,
    second,
    first_scale,
    second_scale,
    step,
    temporary,
    root
  };
  struct Operand {
    List list;
    Access mode;
  };

  void add_state(const OptimizedTensor& tensor);
  /// Are there states whose dtype is not the parameters'?
  bool is_mixed() const;
  void adamw_mixed();
  /// An op over all tensors.
  void launch(std::span<const Operand> operands, std::int64_t flops_an_element);
  /// An op over those from `first` to before `last`.
  void launch_over(std::size_t first, std::size_t last, std::span<const Operand> operands,
                   std::int64_t flops_an_element);
  /// An op a tensor if the optimizer is a loop, else one over all.
  void launch_by_impl(std::span<const Operand> operands, std::int64_t flops_an_element);
  void fill(const Buffer& buffer, const Owner& owner);
  void adamw_foreach();
  void adamw_fused();
  void adamw_for_loop();
  void sgd();
  const Buffer& of(std::size_t tensor, List list) const;

  Lowering& lowering_;
  BufferName mean_{"exp_avg"}, square_{"exp_avg_sq"}, momentum_{"momentum"}, step_{"step"};
  BufferName mean_scale_{"exp_avg scale"}, square_scale_{"exp_avg_sq scale"};
  BufferName root_{"exp_avg_sq_sqrt"}, quotient_{"denom"};
  std::span<const OptimizedTensor> tensors_;
  std::vector<State> states_;
  DType type_ = DType::f32;
  bool has_momentum_ = false;
  std::vector<std::pair<Bytes, CostId>> fills_;  ///< by size
  std::vector<AccessedTensor> scratch_;
};

}  // namespace foregather::plan
