#include "sim/memory/slots.h"

namespace foregather::sim {

Slots::Slots(const Graph& graph, const Program& program)
    : graph_(graph),
      first_(program.storages.first),
      tensors_(program.storages.count, 0),
      left_(program.storages.count, 0),
      bound_(program.storages.count, false) {
  for (const Tensor& tensor : graph.tensors)
    if (program.storages.contains(tensor.storage.row())) ++tensors_[tensor.storage.row() - first_];
}

Slots::Change Slots::bind(std::uint32_t storage) {
  left_[storage] = tensors_[storage];
  bound_[storage] = true;
  return {storage, true};
}

std::optional<Slots::Change> Slots::unbind(std::uint32_t storage) {
  if (!bound_[storage]) return std::nullopt;
  bound_[storage] = false;
  return Change{storage, false};
}

std::optional<Slots::Change> Slots::perform(const Action& action) {
  switch (action.kind) {
    case ActionKind::alloc: return bind(action.a - first_);
    case ActionKind::free: return unbind(action.a - first_);
    case ActionKind::release: {
      const std::uint32_t storage = graph_.tensors[action.a].storage.row() - first_;
      if (left_[storage] > 0 && --left_[storage] == 0) return unbind(storage);
      return std::nullopt;
    }
    default: return std::nullopt;
  }
}

}  // namespace foregather::sim
