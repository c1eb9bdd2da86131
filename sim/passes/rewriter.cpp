#include "sim/passes/rewriter.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <optional>
#include <tuple>

#include "core/ir/validate.h"
#include "sim/memory/host_order.h"

namespace foregather::sim {
namespace {

bool names_storage(ActionKind kind) {
  return kind == ActionKind::alloc || kind == ActionKind::free || kind == ActionKind::record_stream;
}

bool names_event(ActionKind kind) {
  return kind == ActionKind::record || kind == ActionKind::wait ||
         kind == ActionKind::host_wait_event;
}

template <class Visit>
void each_action(Program& program, Visit visit) {
  for (HostThread& thread : program.threads)
    for (std::vector<Action>& section : thread.sections)
      for (Action& action : section) visit(action);
}

}  // namespace

Rewriter::Rewriter(Graph graph)
    : graph_(std::move(graph)), old_ops_(graph_.ops.size()), old_storages_(graph_.storages.size()) {
  std::size_t lists = 0;
  for (const Program& program : graph_.programs) {
    first_list_.push_back(lists);
    lists += program.threads.size() * kSections;
    old_events_ = std::max(old_events_, program.events.end());
  }
  edits_.resize(lists);
}

std::size_t Rewriter::index(const ActionList& list) const {
  return first_list_[list.program.row()] + list.thread * kSections +
         static_cast<std::size_t>(list.section);
}

std::vector<ActionList> Rewriter::lists(Section section) const {
  std::vector<ActionList> lists;
  for (std::size_t p = 0; p < graph_.programs.size(); ++p)
    for (std::uint32_t t = 0; t < graph_.programs[p].threads.size(); ++t)
      if (!graph_.programs[p].threads[t].actions(section).empty())
        lists.push_back({ProgramId(p), t, section});
  return lists;
}

const std::vector<Action>& Rewriter::actions(const ActionList& list) const {
  return graph_.programs[list.program.row()]
      .threads[list.thread]
      .sections[static_cast<std::size_t>(list.section)];
}

std::vector<Action>& Rewriter::mutable_actions(const ActionList& list) {
  return graph_.programs[list.program.row()]
      .threads[list.thread]
      .sections[static_cast<std::size_t>(list.section)];
}

// --- rows ---

OpId Rewriter::add_op(ProgramId program, const Op& op, std::span<const AccessedTensor> accesses) {
  const OpId id(graph_.ops.size());
  graph_.ops.push_back(op);
  set_accesses(id, accesses);
  new_ops_.push_back(program);
  return id;
}

void Rewriter::set_accesses(OpId op, std::span<const AccessedTensor> accesses) {
  // The rows may be those of this very pool.
  const std::vector<AccessedTensor> rows(accesses.begin(), accesses.end());
  graph_.ops[op.row()].accesses = {static_cast<std::uint32_t>(graph_.accesses.size()),
                                   static_cast<std::uint32_t>(rows.size())};
  graph_.accesses.insert(graph_.accesses.end(), rows.begin(), rows.end());
}

void Rewriter::set_origins(OpId op, std::span<const OpId> origins) {
  const std::vector<OpId> rows(origins.begin(), origins.end());
  graph_.ops[op.row()].origins = {static_cast<std::uint32_t>(graph_.op_lists.size()),
                                  static_cast<std::uint32_t>(rows.size())};
  graph_.op_lists.insert(graph_.op_lists.end(), rows.begin(), rows.end());
}

void Rewriter::set_deps(OpId op, std::span<const OpId> deps) {
  const std::vector<OpId> rows(deps.begin(), deps.end());
  graph_.ops[op.row()].deps = {static_cast<std::uint32_t>(graph_.op_lists.size()),
                               static_cast<std::uint32_t>(rows.size())};
  graph_.op_lists.insert(graph_.op_lists.end(), rows.begin(), rows.end());
}

void Rewriter::replace_deps(const std::function<OpId(OpId)>& by) {
  for (std::size_t row = 0; row < graph_.ops.size(); ++row) {
    std::vector<OpId> deps;
    bool is_changed = false;
    for (const OpId dep : graph_.deps_of(graph_.ops[row])) {
      const OpId other = by(dep);
      is_changed |= other != dep;
      if (other != OpId(row) && std::find(deps.begin(), deps.end(), other) == deps.end())
        deps.push_back(other);
    }
    if (is_changed) set_deps(OpId(row), deps);
  }
}

StorageId Rewriter::add_storage(ProgramId program, const Storage& storage) {
  graph_.storages.push_back(storage);
  new_storages_.push_back(program);
  return StorageId(graph_.storages.size() - 1);
}

TensorId Rewriter::add_tensor(const Tensor& tensor) {
  graph_.tensors.push_back(tensor);
  return TensorId(graph_.tensors.size() - 1);
}

EventId Rewriter::add_event(ProgramId program) {
  new_events_.push_back(program);
  return EventId(old_events_ + new_events_.size() - 1);
}

CostId Rewriter::add_cost(const Cost& cost) {
  graph_.costs.push_back(cost);
  return CostId(graph_.costs.size() - 1);
}

// --- edits ---

void Rewriter::insert_before(const ActionList& list, std::uint32_t position, const Action& action) {
  edits_[index(list)].insertions.push_back({position, action});
}

void Rewriter::erase(const ActionList& list, std::uint32_t position) {
  edits_[index(list)].erased.insert(position);
}

void Rewriter::replace(const ActionList& list, std::uint32_t position, const Action& action) {
  mutable_actions(list)[position] = action;
}

void Rewriter::move(const ActionList& list, std::uint32_t from, std::uint32_t to) {
  insert_before(list, to, actions(list)[from]);
  erase(list, from);
}

bool Rewriter::is_erased(const ActionList& list, std::uint32_t position) const {
  return edits_[index(list)].erased.contains(position);
}

void Rewriter::flush() {
  for (std::size_t p = 0; p < graph_.programs.size(); ++p)
    for (const Section section : {Section::init, Section::first, Section::body})
      flush(ProgramId(p), section);
}

void Rewriter::flush(ProgramId id, Section section) {
  Program& program = graph_.programs[id.row()];
  const auto threads = static_cast<std::uint32_t>(program.threads.size());
  std::vector<std::vector<std::uint32_t>> moved(threads);  // old position -> new one
  for (std::uint32_t t = 0; t < threads; ++t) {
    const ActionList list{id, t, section};
    Edits& edits = edits_[index(list)];
    if (edits.insertions.empty() && edits.erased.empty()) continue;
    std::stable_sort(
        edits.insertions.begin(), edits.insertions.end(),
        [](const Insertion& a, const Insertion& b) { return a.position < b.position; });
    std::vector<Action>& old = mutable_actions(list);
    std::vector<Action> fresh;
    fresh.reserve(old.size() + edits.insertions.size());
    auto next = edits.insertions.begin();
    const auto insert_up_to = [&](std::uint32_t position) {
      for (; next != edits.insertions.end() && next->position <= position; ++next)
        fresh.push_back(next->action);
    };
    for (std::uint32_t i = 0; i < old.size(); ++i) {
      insert_up_to(i);
      if (!edits.erased.contains(i)) fresh.push_back(old[i]);
      moved[t].push_back(fresh.empty() ? 0 : static_cast<std::uint32_t>(fresh.size() - 1));
    }
    insert_up_to(static_cast<std::uint32_t>(old.size()));
    old = std::move(fresh);
    edits = {};
  }
  for (HostThread& thread : program.threads)
    for (Action& action : thread.sections[static_cast<std::size_t>(section)])
      if (action.kind == ActionKind::host_wait_action && !moved[action.a].empty())
        action.b = moved[action.a][action.b];
}

// --- the end ---

void Rewriter::drop_dead_actions() {
  std::vector<bool> is_allocated(graph_.storages.size());
  std::vector<bool> is_recorded(old_events_ + new_events_.size());
  for (Program& program : graph_.programs)
    each_action(program, [&](const Action& action) {
      if (action.kind == ActionKind::alloc) is_allocated[action.a] = true;
      if (action.kind == ActionKind::record) is_recorded[action.a] = true;
    });
  for (const Section section : {Section::init, Section::first, Section::body})
    for (const ActionList& list : lists(section)) {
      const std::vector<Action>& all = actions(list);
      for (std::uint32_t i = 0; i < all.size(); ++i) {
        const Action& action = all[i];
        const bool is_dead = (names_storage(action.kind) && !is_allocated[action.a]) ||
                             (action.kind == ActionKind::release &&
                              !is_allocated[graph_.tensors[action.a].storage.row()]) ||
                             (names_event(action.kind) && !is_recorded[action.a]);
        if (is_dead) erase(list, i);
      }
    }
  flush();
}

// The order of a communicator's launches, from all sections. Ops of one section come in its order;
// sections share most ops.
void Rewriter::number_collectives(ProgramId id, Status& status) {
  const Program& program = graph_.at(id);
  std::map<CommunicatorId, std::array<std::vector<OpId>, kSections>> launched;
  for (const Section section : {Section::init, Section::first, Section::body})
    for (const HostPoint point : host_order(program, section)) {
      const Action& action = program.threads[point.thread].actions(section)[point.index];
      if (action.kind != ActionKind::launch) continue;
      const Op& op = graph_.ops[action.a];
      if (op.communicator)
        launched[op.communicator][static_cast<std::size_t>(section)].push_back(OpId(action.a));
    }
  for (const auto& [communicator, sections] : launched) {
    const auto is_in_order = [&](const std::vector<OpId>& ops) {
      return std::adjacent_find(ops.begin(), ops.end(), [&](OpId a, OpId b) {
               return graph_.at(a).sequence >= graph_.at(b).sequence;
             }) == ops.end();
    };
    if (std::all_of(sections.begin(), sections.end(), is_in_order)) continue;
    // A merge: take from the list whose next op no other list still has further back.
    std::map<OpId, std::uint32_t> waiting;  // lists that have yet to give it
    for (const auto& ops : sections)
      for (const OpId op : ops) ++waiting[op];
    std::array<std::size_t, kSections> at{};
    std::map<OpId, std::uint32_t> at_front;
    std::uint32_t sequence = 0;
    for (std::size_t s = 0; s < kSections; ++s)
      if (!sections[s].empty()) ++at_front[sections[s][0]];
    while (!at_front.empty()) {
      const auto ready = [&, &sections = sections](std::size_t s) {
        return at[s] < sections[s].size() &&
               at_front[sections[s][at[s]]] == waiting[sections[s][at[s]]];
      };
      std::size_t chosen = 0;
      while (chosen < kSections && !ready(chosen)) ++chosen;
      if (chosen == kSections) {
        status = fail(
            "the first and the steady step would launch collectives of communicator {} in two "
            "orders",
            graph_.text(graph_.at(communicator).name));
        return;
      }
      const OpId op = sections[chosen][at[chosen]];
      graph_.ops[op.row()].sequence = sequence++;
      at_front.erase(op);
      for (std::size_t s = 0; s < kSections; ++s)
        if (at[s] < sections[s].size() && sections[s][at[s]] == op)
          if (++at[s] < sections[s].size()) ++at_front[sections[s][at[s]]];
    }
  }
}

void Rewriter::number_new_ops() {
  if (new_ops_.empty()) return;
  const auto key = [](ProgramId program, const Op& op) {
    return std::tuple(program, op.scope, op.micro_batch, op.phase, op.kind);
  };
  std::map<decltype(key(ProgramId(), Op())), std::uint32_t> next;
  for (std::size_t i = 0; i < new_ops_.size(); ++i)
    next.emplace(key(new_ops_[i], graph_.ops[old_ops_ + i]), 0);
  for (std::size_t p = 0; p < graph_.programs.size(); ++p) {
    const Range ops = graph_.programs[p].ops;
    for (std::uint32_t row = ops.first; row < ops.end(); ++row)
      if (const auto found = next.find(key(ProgramId(p), graph_.ops[row])); found != next.end())
        found->second = std::max(found->second, graph_.ops[row].ordinal + 1U);
  }
  for (std::size_t i = 0; i < new_ops_.size(); ++i) {
    Op& op = graph_.ops[old_ops_ + i];
    op.ordinal = next[key(new_ops_[i], op)]++;
  }
}

void Rewriter::compact() {
  constexpr std::uint32_t kGone = 0xffffffffU;
  std::vector<std::uint32_t> op_rows(graph_.ops.size(), kGone);
  std::vector<std::uint32_t> storage_rows(graph_.storages.size(), kGone);
  std::vector<std::uint32_t> tensor_rows(graph_.tensors.size(), kGone);
  std::vector<std::uint32_t> event_rows(old_events_ + new_events_.size(), kGone);

  // What is kept.
  std::vector<bool> is_launched(graph_.ops.size());
  std::vector<bool> keeps_op(graph_.ops.size());
  std::vector<bool> keeps_storage(graph_.storages.size());
  std::vector<bool> keeps_event(event_rows.size());
  std::vector<OpId> to_visit;
  for (Program& program : graph_.programs)
    each_action(program, [&](const Action& action) {
      if (action.kind == ActionKind::launch && !is_launched[action.a]) {
        is_launched[action.a] = keeps_op[action.a] = true;
        to_visit.push_back(OpId(action.a));
      }
      if (action.kind == ActionKind::alloc) keeps_storage[action.a] = true;
      if (action.kind == ActionKind::record) keeps_event[action.a] = true;
    });
  // Only origins of launched ops count for validate(): those of origins hang on them directly.
  for (std::size_t i = 0; i < to_visit.size(); ++i)
    for (const OpId origin : graph_.origins_of(graph_.at(to_visit[i]))) {
      keeps_op[origin.row()] = true;
      if (is_launched[origin.row()] || graph_.at(to_visit[i]).kind != OpKind::fused) continue;
      for (const AccessedTensor& part : graph_.accesses_of(graph_.at(origin)))
        keeps_storage[graph_.at(part.tensor).storage.row()] = true;
    }

  // Old rows first, program by program.
  std::vector<Op> ops;
  std::vector<Storage> storages;
  std::uint32_t events = 0;
  for (std::size_t p = 0; p < graph_.programs.size(); ++p) {
    Program& program = graph_.programs[p];
    const auto take = [&](Range& range, std::size_t old, const std::vector<ProgramId>& added,
                          auto keep) {
      const Range before = range;
      range.count = 0;
      const auto visit = [&](std::size_t row) { range.count += keep(row) ? 1 : 0; };
      for (std::uint32_t row = before.first; row < before.end(); ++row) visit(row);
      for (std::size_t i = 0; i < added.size(); ++i)
        if (added[i] == ProgramId(p)) visit(old + i);
    };
    const auto first_op = static_cast<std::uint32_t>(ops.size());
    take(program.ops, old_ops_, new_ops_, [&](std::size_t row) {
      if (!keeps_op[row]) return false;
      op_rows[row] = static_cast<std::uint32_t>(ops.size());
      ops.push_back(graph_.ops[row]);
      return true;
    });
    program.ops.first = first_op;
    const auto first_storage = static_cast<std::uint32_t>(storages.size());
    take(program.storages, old_storages_, new_storages_, [&](std::size_t row) {
      if (!keeps_storage[row]) return false;
      storage_rows[row] = static_cast<std::uint32_t>(storages.size());
      storages.push_back(graph_.storages[row]);
      return true;
    });
    program.storages.first = first_storage;
    const std::uint32_t first_event = events;
    take(program.events, old_events_, new_events_, [&](std::size_t row) {
      if (!keeps_event[row]) return false;
      event_rows[row] = events++;
      return true;
    });
    program.events.first = first_event;
  }
  std::vector<Tensor> tensors;
  for (std::size_t row = 0; row < graph_.tensors.size(); ++row) {
    Tensor tensor = graph_.tensors[row];
    if (storage_rows[tensor.storage.row()] == kGone) continue;
    tensor.storage = StorageId(storage_rows[tensor.storage.row()]);
    tensor_rows[row] = static_cast<std::uint32_t>(tensors.size());
    tensors.push_back(tensor);
  }

  // Pools, in the order of ops.
  std::vector<AccessedTensor> accesses;
  std::vector<OpId> op_lists;
  std::vector<OpId> seen;
  const auto add_dep = [&](auto&& self, OpId dep, std::size_t first) -> void {
    if (op_rows[dep.row()] != kGone && is_launched[dep.row()]) {
      const OpId id(op_rows[dep.row()]);
      if (std::find(op_lists.begin() + static_cast<std::ptrdiff_t>(first), op_lists.end(), id) ==
          op_lists.end())
        op_lists.push_back(id);
      return;
    }
    if (std::find(seen.begin(), seen.end(), dep) != seen.end()) return;
    seen.push_back(dep);
    for (const OpId before : graph_.deps_of(graph_.at(dep))) self(self, before, first);
  };
  const auto rows_since = [](const auto& pool, std::size_t first) {
    return Range{static_cast<std::uint32_t>(first),
                 static_cast<std::uint32_t>(pool.size() - first)};
  };
  for (Op& op : ops) {
    const Op from = op;
    std::size_t first = accesses.size();
    for (AccessedTensor part : graph_.accesses_of(from)) {
      if (tensor_rows[part.tensor.row()] == kGone) continue;  // of an origin
      part.tensor = TensorId(tensor_rows[part.tensor.row()]);
      accesses.push_back(part);
    }
    op.accesses = rows_since(accesses, first);
    first = op_lists.size();
    seen.clear();
    for (const OpId dep : graph_.deps_of(from)) add_dep(add_dep, dep, first);
    op.deps = rows_since(op_lists, first);
    first = op_lists.size();
    for (const OpId origin : graph_.origins_of(from))
      if (op_rows[origin.row()] != kGone) op_lists.push_back(OpId(op_rows[origin.row()]));
    op.origins = rows_since(op_lists, first);
  }

  for (Program& program : graph_.programs)
    each_action(program, [&](Action& action) {
      if (action.kind == ActionKind::launch) action.a = op_rows[action.a];
      if (names_storage(action.kind)) action.a = storage_rows[action.a];
      if (names_event(action.kind)) action.a = event_rows[action.a];
      if (action.kind == ActionKind::release) action.a = tensor_rows[action.a];
    });
  graph_.ops = std::move(ops);
  graph_.storages = std::move(storages);
  graph_.tensors = std::move(tensors);
  graph_.accesses = std::move(accesses);
  graph_.op_lists = std::move(op_lists);
}

Result<Graph> Rewriter::finish() {
  flush();
  drop_dead_actions();
  Status status;
  for (std::size_t p = 0; p < graph_.programs.size() && status; ++p)
    number_collectives(ProgramId(p), status);
  if (!status) return tl::unexpected(status.error());
  number_new_ops();
  compact();
  return std::move(graph_);
}

PassNote settle(PassTarget& target, Rewriter& rewriter, PassNote note) {
  auto graph = rewriter.finish();
  std::string problem = graph ? std::string() : graph.error().message;
  if (graph)
    if (const auto problems = validate(*graph, 1); !problems.empty())
      problem = problems.front().message;
  if (!problem.empty())
    return {std::move(note.pass), std::string(kNoSchedule) + problem + ")", false};
  target.graph = std::move(*graph);
  return note;
}

}  // namespace foregather::sim
