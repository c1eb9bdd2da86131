#include "core/plan/old_outputs.h"

#include <algorithm>

#include "core/plan/checkpoint.h"

namespace foregather::plan {

OldOutputs::OldOutputs(Lowering& lowering, const ModuleWriter& modules)
    : lowering_(lowering),
      until_next_call_(lowering.workload.train.held_outputs == HeldOutputs::cache) {
  const Workload& workload = lowering.workload;
  if (workload.train.held_outputs == HeldOutputs::none ||
      workload.parallel.strategy == Strategy::deepcompile)
    return;
  const char* suffix = until_next_call_ ? " of the call before" : ", held";
  for (std::uint32_t m = 0; m < lowering.modules(); ++m) {
    const Tape& tape = lowering.tape_of(m);
    std::vector<ValueIndex> roots;
    for (const ValueIndex value : tape.returned) {
      const ValueIndex root = storage_of(tape, value);
      if (std::find(roots.begin(), roots.end(), root) == roots.end()) roots.push_back(root);
    }
    const Owner owner{modules.scope(m), lowering.owners[lowering.layout.unit_of_module[m]].unit};
    for (const ValueIndex root : roots) {
      const Value& value = tape.values[root];
      held_.push_back({m, lowering.buffer(value.bytes / size_of(value.dtype), value.dtype,
                                          value.name + suffix, Cause::activation, owner)});
    }
  }
}

void OldOutputs::call_returned() {
  if (!until_next_call_) return;
  if (!has_been_called_) places_ = lowering_.builder.position();
  for (const Held& held : held_) {
    if (has_been_called_)
      lowering_.builder.free(held.buffer.storage);
    else
      lowering_.builder.act({ActionKind::host_delay, {}, 0, 0});
  }
}

void OldOutputs::backward_ended(std::uint32_t module) {
  has_been_called_ = true;
  const auto is_before = [](const Held& held, std::uint32_t at) { return held.module < at; };
  for (auto held = std::lower_bound(held_.begin(), held_.end(), module, is_before);
       held != held_.end() && held->module == module; ++held)
    lowering_.builder.alloc(held->buffer.storage, lowering_.compute);
}

void OldOutputs::backward_over() {
  if (until_next_call_) return;
  for (const Held& held : held_) lowering_.builder.free(held.buffer.storage);
}

void OldOutputs::step_copied(std::uint32_t shift) {
  if (!until_next_call_) return;
  HostThread& main = lowering_.builder.graph().programs.back().threads[lowering_.main_thread];
  std::vector<Action>& body = main.sections[static_cast<std::size_t>(Section::body)];
  for (std::size_t i = 0; i < held_.size(); ++i)
    body[places_ + shift + i] = {ActionKind::free, {}, held_[i].buffer.storage.row(), 0};
}

}  // namespace foregather::plan
