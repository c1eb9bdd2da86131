// A section as one list, in host order, with the lifetimes of its storages: what passes look at.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ir/graph.h"
#include "sim/passes/rewriter.h"

namespace foregather::sim {

/// An action and where it stands.
struct PlacedAction {
  ActionList list;
  std::uint32_t position = 0;
  Action action;
};

/// Says what holds memory, and orders nothing.
constexpr bool is_memory(ActionKind kind) {
  return kind == ActionKind::alloc || kind == ActionKind::free || kind == ActionKind::release ||
         kind == ActionKind::record_stream;
}

/// Index into HostActions::all.
using ActionIndex = std::size_t;

/// One binding of a storage that begins in the section.
struct Lifetime {
  StorageId storage;
  ActionIndex begin = 0;             ///< its alloc
  std::optional<ActionIndex> end;    ///< its free or last release; nothing: it outlives the section
  bool by_release = false;           ///< a release ends it
  std::vector<ActionIndex> users;    ///< launches that touch it, in order
  std::vector<ActionIndex> records;  ///< record_stream actions
};

/// The actions of all threads of a program's section in one order that the threads' waits allow
/// (see host_order()). Linear in actions and accesses.
class HostActions {
 public:
  HostActions(const Graph& graph, ProgramId program, Section section);

  std::vector<PlacedAction> all;
  std::vector<Lifetime> bindings;  ///< in the order of their allocs

  /// The op that action `at` launches.
  OpId op(ActionIndex at) const { return OpId(all[at].action.a); }
  bool is_launch(ActionIndex at) const { return all[at].action.kind == ActionKind::launch; }
  /// The binding that an access of the launch at `at` touches: its row in `bindings`; nothing: it
  /// began in an earlier section.
  std::optional<std::size_t> binding_at(ActionIndex at, StorageId storage) const;

 private:
  std::vector<std::vector<std::size_t>>
      of_storage_;  ///< rows of bindings, from the program's first
  std::uint32_t first_storage_;
};

}  // namespace foregather::sim
