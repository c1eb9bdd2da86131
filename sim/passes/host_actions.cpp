#include "sim/passes/host_actions.h"

#include <algorithm>

#include "sim/memory/host_order.h"
#include "sim/memory/slots.h"

namespace foregather::sim {

HostActions::HostActions(const Graph& graph, ProgramId id, Section section) {
  const Program& program = graph.at(id);
  first_storage_ = program.storages.first;
  of_storage_.resize(program.storages.count);
  for (const HostPoint point : host_order(program, section))
    all.push_back({{id, point.thread, section},
                   point.index,
                   program.threads[point.thread].actions(section)[point.index]});
  Slots slots(graph, program);
  // What earlier sections leave bound.
  for (const Section earlier : {Section::init, Section::first})
    if (earlier < section)
      for (const HostPoint point : host_order(program, earlier))
        (void)slots.perform(program.threads[point.thread].actions(earlier)[point.index]);
  constexpr auto kNone = static_cast<std::size_t>(-1);
  std::vector<std::size_t> current(program.storages.count, kNone);
  for (ActionIndex at = 0; at < all.size(); ++at) {
    const Action& action = all[at].action;
    if (action.kind == ActionKind::launch) {
      for (const AccessedTensor& part : graph.accesses_of(graph.ops[action.a])) {
        const std::size_t row = current[graph.at(part.tensor).storage.row() - first_storage_];
        if (row == kNone) continue;
        std::vector<ActionIndex>& users = bindings[row].users;
        if (users.empty() || users.back() != at) users.push_back(at);
      }
    }
    if (action.kind == ActionKind::record_stream && current[action.a - first_storage_] != kNone)
      bindings[current[action.a - first_storage_]].records.push_back(at);
    const auto change = slots.perform(action);
    if (!change) continue;
    std::size_t& row = current[change->storage];
    if (change->bound) {
      row = bindings.size();
      of_storage_[change->storage].push_back(row);
      bindings.push_back({StorageId(first_storage_ + change->storage), at, {}, false, {}, {}});
    } else if (row != kNone) {
      bindings[row].end = at;
      bindings[row].by_release = action.kind == ActionKind::release;
      row = kNone;
    }
  }
}

std::optional<std::size_t> HostActions::binding_at(ActionIndex at, StorageId storage) const {
  const std::vector<std::size_t>& rows = of_storage_[storage.row() - first_storage_];
  const auto after = std::partition_point(
      rows.begin(), rows.end(), [&](std::size_t row) { return bindings[row].begin < at; });
  if (after == rows.begin()) return std::nullopt;
  const std::size_t row = *(after - 1);
  if (bindings[row].end && *bindings[row].end < at) return std::nullopt;
  return row;
}

}  // namespace foregather::sim
