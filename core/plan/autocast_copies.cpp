#include "core/plan/autocast_copies.h"

#include "core/plan/autocast.h"

namespace foregather::plan {

AutocastCopies::AutocastCopies(Lowering& lowering, ModuleWriter& modules, DType type,
                               std::span<const Buffer> parameters, std::span<const Owner> owners)
    : lowering_(lowering),
      modules_(modules),
      type_(type),
      parameters_(parameters),
      owners_(owners) {
  const DType computed = lowering.workload.train.compute;
  for (std::uint32_t m = 0; m < lowering.modules(); ++m) {
    first_.push_back(static_cast<std::uint32_t>(copies_.size()));
    const Tape& tape = lowering.tape_of(m);
    for (ParameterIndex p = 0; p < tape.parameters.size(); ++p) {
      Copy copy;
      copy.row = lowering.layout.row_of(m, p);
      copy.is_trained = tape.parameters[p].trainable;
      if (type != computed && is_matmul_operand(tape, p)) {
        copy.computed =
            lowering.buffer(tape.parameters[p].elements, computed, tape.parameters[p].name,
                            Cause::cast_copy, {modules.scope(m), owners[copy.row].unit});
        modules.set_parameter(m, p, copy.computed);
      }
      copies_.push_back(copy);
    }
  }
  first_.push_back(static_cast<std::uint32_t>(copies_.size()));
}

std::span<AutocastCopies::Copy> AutocastCopies::copies_of(std::uint32_t module) {
  return std::span(copies_).subspan(first_[module], first_[module + 1] - first_[module]);
}

bool AutocastCopies::are_saved(std::uint32_t module) const {
  return lowering_.tape_of(module).has_hooks() && modules_.policy(module) == SavePolicy::none;
}

void AutocastCopies::after_forward(std::uint32_t module) {
  if (are_saved(module)) return;
  for (Copy& copy : copies_of(module))
    if (!copy.is_trained) drop(copy);
}

void AutocastCopies::end_forward() {
  for (std::uint32_t m = 0; m < lowering_.modules(); ++m)
    if (!are_saved(m)) after_backward(m);
}

void AutocastCopies::after_backward(std::uint32_t module) {
  for (Copy& copy : copies_of(module)) drop(copy);
}

void AutocastCopies::make(std::uint32_t module) {
  for (Copy& copy : copies_of(module)) {
    if (!copy.computed.storage || copy.is_there) continue;
    copy.is_there = true;
    cast_into(lowering_, parameters_[copy.row], copy.computed, lowering_.workload.train.compute,
              owners_[copy.row], scratch_);
  }
}

void AutocastCopies::drop(Copy& copy) {
  if (!copy.is_there) return;
  copy.is_there = false;
  lowering_.free(copy.computed);
}

void AutocastCopies::widen_gradient(std::uint32_t row, const Buffer& gradient, const Buffer& wide) {
  cast_into(lowering_, gradient, wide, type_, owners_[row], scratch_);
  lowering_.free(gradient);
}

}  // namespace foregather::plan
