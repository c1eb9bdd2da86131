#include "core/plan/autocast.h"
#include "core/plan/fsdp1_schedule.h"

namespace foregather::plan {

// Gradients of what autocast leaves alone arrive in the gathered dtype by themselves.
void Fsdp1Schedule::add_copies(ModuleWriter& modules, std::span<const Buffer> views) {
  modules_ = &modules;
  const DType computed = lowering_.workload.train.compute;
  const ShardLayout& layout = lowering_.layout;
  for (std::uint32_t m = 0; m < lowering_.modules(); ++m) {
    const Tape& tape = lowering_.tape_of(m);
    first_copy_.push_back(static_cast<std::uint32_t>(copies_.size()));
    for (ParameterIndex p = 0; p < tape.parameters.size(); ++p) {
      const std::uint32_t row = layout.row_of(m, p);
      const Fsdp1Unit& unit = units_[layout.unit_of_parameter[row]];
      const std::int64_t elements = layout.parameters[row].elements;
      const std::string& name = tape.parameters[p].name;
      Copy copy;
      copy.parameter = views[row];
      copy.owner = {modules.scope(m), unit.owner.unit};
      if (unit.is_leaf) copy.leaf = layout.unit_of_parameter[row];
      copy.gradient = lowering_.buffer(elements, types_.gathered, "gradient " + name,
                                       Cause::gradient, copy.owner);
      if (is_matmul_operand(tape, p)) {
        copy.computed = lowering_.buffer(elements, computed, name, Cause::cast_copy, copy.owner);
        modules.set_parameter(m, p, copy.computed);
      } else {
        modules.set_gradient(m, p, copy.gradient);
      }
      copies_.push_back(copy);
    }
  }
  first_copy_.push_back(static_cast<std::uint32_t>(copies_.size()));
}

std::span<Fsdp1Schedule::Copy> Fsdp1Schedule::copies_of(std::uint32_t module) {
  if (copies_.empty()) return {};
  return std::span(copies_).subspan(first_copy_[module],
                                    first_copy_[module + 1] - first_copy_[module]);
}

void Fsdp1Schedule::make_copies(std::uint32_t module, std::uint32_t leaf) {
  for (Copy& copy : copies_of(module)) {
    if (!copy.computed.storage || copy.is_there || copy.leaf != leaf) continue;
    copy.is_there = true;
    cast_into(lowering_, copy.parameter, copy.computed, lowering_.workload.train.compute,
              copy.owner, scratch_);
  }
}

void Fsdp1Schedule::drop_copies(std::uint32_t module) {
  for (Copy& copy : copies_of(module)) {
    if (!copy.is_there) continue;
    copy.is_there = false;
    lowering_.free(copy.computed);
  }
}

// Autograd saves the copy for the backward of the matmul.
void Fsdp1Schedule::drop_unsaved_copies(std::uint32_t module) {
  if (copies_.empty()) return;
  const bool has_backward = lowering_.tape_of(module).has_hooks();
  if (!has_backward || modules_->policy(module) != SavePolicy::none) drop_copies(module);
}

Buffer Fsdp1Schedule::cast_gradient(std::uint32_t module, ParameterIndex index,
                                    const Buffer& gradient) {
  if (copies_.empty()) return gradient;
  const Copy& copy = copies_of(module)[index];
  if (!copy.computed.storage) return gradient;
  cast_into(lowering_, gradient, copy.gradient, types_.gathered, copy.owner, scratch_);
  lowering_.free(gradient);
  return copy.gradient;
}

}  // namespace foregather::plan
