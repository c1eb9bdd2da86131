// The tool that passes edit schedules with.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_set>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "sim/passes/pass.h"

namespace foregather::sim {

/// One list of actions of a program.
struct ActionList {
  ProgramId program;
  std::uint32_t thread = 0;
  Section section = Section::body;
  friend bool operator==(const ActionList&, const ActionList&) = default;
};

/// A graph under edit. Rows of tables may be changed and added but not removed: what the edited
/// programs no longer use is dropped by finish(). Ids and places stay valid until finish(), but for
/// places of a list that was flushed.
///
/// Edits of a list of actions are collected with the positions that the list had, and applied by
/// flush(); so a pass looks at an unchanged list while it edits. Inserted actions stay in the order
/// of their insertion. host_wait_action follows the action that it names; one that is erased leaves
/// its waiters to the action before it.
///
/// finish() then drops
///   ops that nothing launches and no op has as origin, with their deps handed on to who had them;
///   storages that nothing allocates, their tensors, and what frees them, but for the
///   intermediates of fusion regions (see fusion_parts.h);
///   waits for events that nothing records;
/// and numbers ops, storages, tensors and events anew, old ones first, in their old order. Old ops
/// keep their ordinals; new ones get the next of their key. A communicator whose launches are no
/// longer in order of their sequence numbers gets new numbers.
///
/// Cost: linear in the graph for each flush of all lists and for finish().
class Rewriter {
 public:
  explicit Rewriter(Graph graph);

  /// The graph with all rows and, up to the last flush(), all edits.
  const Graph& graph() const { return graph_; }
  Graph& graph() { return graph_; }
  /// Every list of a section that is not empty.
  std::vector<ActionList> lists(Section section) const;
  const std::vector<Action>& actions(const ActionList& list) const;

  /// Adds a row of that program. Accesses of the op given are ignored.
  OpId add_op(ProgramId program, const Op& op, std::span<const AccessedTensor> accesses);
  void set_accesses(OpId op, std::span<const AccessedTensor> accesses);
  void set_origins(OpId op, std::span<const OpId> origins);
  void set_deps(OpId op, std::span<const OpId> deps);
  /// Each dep of each op becomes what `by` makes of it; those that become the op itself go.
  void replace_deps(const std::function<OpId(OpId)>& by);
  StorageId add_storage(ProgramId program, const Storage& storage);
  TensorId add_tensor(const Tensor& tensor);
  EventId add_event(ProgramId program);
  CostId add_cost(const Cost& cost);

  void insert_before(const ActionList& list, std::uint32_t position, const Action& action);
  void insert_after(const ActionList& list, std::uint32_t position, const Action& action) {
    insert_before(list, position + 1, action);
  }
  void erase(const ActionList& list, std::uint32_t position);
  void replace(const ActionList& list, std::uint32_t position, const Action& action);
  /// The action at `from` goes before `to` of the same list.
  void move(const ActionList& list, std::uint32_t from, std::uint32_t to);
  bool is_erased(const ActionList& list, std::uint32_t position) const;
  void flush();

  /// The edited graph. Error: two sections launch the same collectives in two orders, so that no
  /// sequence numbers can be given.
  Result<Graph> finish();

 private:
  struct Insertion {
    std::uint32_t position = 0;
    Action action;
  };
  struct Edits {
    std::vector<Insertion> insertions;
    std::unordered_set<std::uint32_t> erased;
  };

  std::size_t index(const ActionList& list) const;
  std::vector<Action>& mutable_actions(const ActionList& list);
  void flush(ProgramId program, Section section);
  void drop_dead_actions();
  void number_collectives(ProgramId program, Status& status);
  void number_new_ops();
  void compact();

  Graph graph_;
  std::vector<std::size_t> first_list_;  ///< by program: its first row of edits_
  std::vector<Edits> edits_;
  std::size_t old_ops_ = 0;
  std::size_t old_storages_ = 0;
  std::uint32_t old_events_ = 0;
  std::vector<ProgramId> new_ops_, new_storages_, new_events_;  ///< owner of each added row
};

/// What a note says of a change that could not be made; the problem and ")" follow.
inline constexpr std::string_view kNoSchedule =
    "left as it is: changed, it would be no schedule that could run (";

/// Ends a pass: the edited graph takes the place of the target's, unless it would be no schedule
/// that could run (see validate()) or has no numbers for its collectives. Then the target stays as
/// it is, and the note says why nothing was done. `rewriter` has a copy of the target's graph.
PassNote settle(PassTarget& target, Rewriter& rewriter, PassNote note);

}  // namespace foregather::sim
