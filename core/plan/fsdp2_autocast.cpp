#include "core/plan/fsdp2_schedule.h"

namespace foregather::plan {

// Gradients of what autocast leaves alone arrive in the gathered dtype by themselves.
void Fsdp2Schedule::add_copies(ModuleWriter& modules) {
  const ShardLayout& layout = lowering_.layout;
  for (std::uint32_t row = 0; row < layout.parameters.size(); ++row)
    owners_.push_back({modules.scope(layout.parameters[row].module),
                       units_[layout.unit_of_parameter[row]].owner.unit});
  copies_.emplace(lowering_, modules, types_.gathered, full_, owners_);
  for (std::uint32_t m = 0; m < lowering_.modules(); ++m) {
    first_gradient_.push_back(static_cast<std::uint32_t>(wide_gradients_.size()));
    const Tape& tape = lowering_.tape_of(m);
    for (ParameterIndex p = 0; p < tape.parameters.size(); ++p) {
      const Owner owner{modules.scope(m), owners_[layout.row_of(m, p)].unit};
      wide_gradients_.push_back(lowering_.buffer(tape.parameters[p].elements, types_.gathered,
                                                 "gradient " + tape.parameters[p].name,
                                                 Cause::gradient, owner));
      if (!copies_->has(m, p)) modules.set_gradient(m, p, wide_gradients_.back());
    }
  }
}

// The first of a step's gradients that accumulate stays where it is.
Buffer Fsdp2Schedule::widened(std::uint32_t module, ParameterIndex index, const Buffer& gradient) {
  const std::uint32_t row = lowering_.layout.row_of(module, index);
  const bool stays = accumulates_in_place_ && !types_.casts_gradients() &&
                     !gradients_[row].storage && last_place_[row].module == module;
  const Buffer& wide =
      stays ? accumulators_[row] : wide_gradients_[first_gradient_[module] + index];
  copies_->widen_gradient(row, gradient, wide);
  return wide;
}

}  // namespace foregather::plan
