// Which storages of a program are bound, action by action.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ir/graph.h"

namespace foregather::sim {

/// Follows alloc, free and release. A storage is freed by `release` once all its tensors are
/// released. Storages are numbered from the program's first.
class Slots {
 public:
  Slots(const Graph& graph, const Program& program);

  struct Change {
    std::uint32_t storage = 0;  ///< from the program's first
    bool bound = false;         ///< it is bound now
  };
  /// Performs an action; nothing if it changes no binding.
  std::optional<Change> perform(const Action& action);

  bool bound(std::uint32_t storage) const { return bound_[storage]; }

 private:
  Change bind(std::uint32_t storage);
  std::optional<Change> unbind(std::uint32_t storage);

  const Graph& graph_;
  std::uint32_t first_;
  std::vector<std::uint32_t> tensors_;  ///< of each storage
  std::vector<std::uint32_t> left_;     ///< not yet released, while bound
  std::vector<bool> bound_;
};

}  // namespace foregather::sim
