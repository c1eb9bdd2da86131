#include "sim/passes/stretch.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace foregather::sim {
namespace {

void find_needs(const Graph& graph, const HostActions& actions, Stretch& stretch) {
  struct Touch {
    std::uint32_t launch;
    std::optional<std::size_t> binding;
    bool writes;
  };
  std::map<StorageId, std::vector<Touch>> touches;
  std::map<OpId, std::uint32_t> launched;
  for (std::uint32_t i = 0; i < stretch.launches.size(); ++i) {
    const OpId id = actions.op(stretch.launches[i]);
    std::set<std::uint32_t> needs;
    for (const OpId dep : graph.deps_of(graph.at(id)))
      if (const auto found = launched.find(dep); found != launched.end())
        needs.insert(found->second);
    launched.emplace(id, i);
    for (const AccessedTensor& access : graph.accesses_of(graph.at(id))) {
      const StorageId storage = graph.at(access.tensor).storage;
      const auto binding = actions.binding_at(stretch.launches[i], storage);
      const bool writes = access.mode != Access::read;
      for (const Touch& earlier : touches[storage])
        if (earlier.launch != i && (earlier.binding != binding || earlier.writes || writes))
          needs.insert(earlier.launch);
      touches[storage].push_back({i, binding, writes});
    }
    stretch.needs.emplace_back(needs.begin(), needs.end());
  }
}

StorageId storage_of(const Graph& graph, const Action& action) {
  return action.kind == ActionKind::release ? graph.tensors[action.a].storage : StorageId(action.a);
}

}  // namespace

std::vector<Stretch> stretches(const Graph& graph, const HostActions& actions) {
  std::vector<Stretch> all;
  Stretch now;
  std::vector<ActionIndex> delays;
  const auto close = [&](ActionIndex end) {
    now.end = end;
    now.tail = std::move(delays);
    if (now.launches.size() > 1) all.push_back(std::move(now));
    now = {};
    delays.clear();
  };
  for (ActionIndex at = 0; at < actions.all.size(); ++at) {
    const PlacedAction& placed = actions.all[at];
    const ActionKind kind = placed.action.kind;
    const bool is_launch = kind == ActionKind::launch;
    const bool is_other_stream =
        is_launch && !now.launches.empty() &&
        graph.at(actions.op(at)).stream != graph.at(actions.op(now.launches.front())).stream;
    const bool is_barrier = !is_launch && !is_memory(kind) && kind != ActionKind::host_delay;
    if (is_barrier || is_other_stream || placed.list != now.list) {
      close(at);
      now.list = placed.list;
      now.begin = is_barrier ? at + 1 : at;
    }
    if (is_memory(kind)) now.memory.push_back(at);
    if (kind == ActionKind::host_delay) delays.push_back(at);
    if (!is_launch) continue;
    now.launches.push_back(at);
    now.delays.push_back(std::move(delays));
    delays.clear();
  }
  close(actions.all.size());
  for (Stretch& stretch : all) find_needs(graph, actions, stretch);
  return all;
}

void reorder(Rewriter& rewriter, const HostActions& actions, const Stretch& stretch,
             const std::vector<std::uint32_t>& order) {
  const Graph& graph = rewriter.graph();
  std::vector<std::uint32_t> place(order.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  // The users of each binding, in their new places.
  std::map<std::pair<StorageId, std::optional<std::size_t>>, std::set<std::uint32_t>> users;
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    const ActionIndex at = stretch.launches[i];
    for (const AccessedTensor& access : graph.accesses_of(graph.at(actions.op(at)))) {
      const StorageId storage = graph.at(access.tensor).storage;
      users[{storage, actions.binding_at(at, storage)}].insert(place[i]);
    }
  }
  std::vector<std::vector<ActionIndex>> before(order.size()), behind(order.size());
  std::vector<ActionIndex> first, last;
  for (const ActionIndex at : stretch.memory) {
    const Action& action = actions.all[at].action;
    const bool begins = action.kind == ActionKind::alloc;
    const StorageId storage = storage_of(graph, action);
    const auto found = users.find({storage, actions.binding_at(begins ? at + 1 : at, storage)});
    if (found == users.end())
      (begins ? last : first).push_back(at);
    else if (begins)
      before[*found->second.begin()].push_back(at);
    else
      behind[*found->second.rbegin()].push_back(at);
  }
  const auto emit = [&](const std::vector<ActionIndex>& some) {
    for (const ActionIndex at : some)
      rewriter.insert_before(stretch.list, actions.all[stretch.begin].position,
                             actions.all[at].action);
  };
  emit(first);
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    emit(before[i]);
    emit(stretch.delays[order[i]]);
    emit({stretch.launches[order[i]]});
    emit(behind[i]);
  }
  emit(last);
  emit(stretch.tail);
  for (ActionIndex at = stretch.begin; at < stretch.end; ++at)
    rewriter.erase(stretch.list, actions.all[at].position);
}

}  // namespace foregather::sim
