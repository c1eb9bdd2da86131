#include "sim/passes/fusion_live.h"

#include <algorithm>
#include <map>

#include "sim/memory/host_order.h"
#include "sim/memory/slots.h"

namespace foregather::sim {

std::vector<Bytes> live_bytes(const Graph& graph, ProgramId id, Section section) {
  const Program& program = graph.at(id);
  Slots slots(graph, program);
  Bytes now = 0;
  std::vector<Bytes> before;
  const auto run = [&](Section which) {
    before.clear();
    for (const HostPoint point : host_order(program, which)) {
      before.push_back(now);
      const auto change = slots.perform(program.threads[point.thread].actions(which)[point.index]);
      if (!change) continue;
      const Storage& storage = graph.storages[program.storages.first + change->storage];
      if (!storage.on_host) now += change->bound ? storage.bytes : -storage.bytes;
    }
  };
  for (const Section earlier : {Section::init, Section::first, Section::body})
    if (earlier <= section) run(earlier);
  if (section == Section::body) run(section);
  return before;
}

StretchMemory::StretchMemory(const Graph& graph, const HostActions& actions, const Stretch& stretch,
                             Bytes before)
    : launches_(stretch.launches.size()), before_(before) {
  std::map<std::size_t, std::size_t> rows;  // of actions.bindings -> of lives_
  for (std::uint32_t i = 0; i < stretch.launches.size(); ++i) {
    const ActionIndex at = stretch.launches[i];
    for (const AccessedTensor& access : graph.accesses_of(graph.at(actions.op(at)))) {
      const StorageId storage = graph.at(access.tensor).storage;
      const auto binding = actions.binding_at(at, storage);
      if (!binding || graph.at(storage).on_host) continue;
      const auto [row, is_new] = rows.try_emplace(*binding, lives_.size());
      if (is_new) lives_.emplace_back().bytes = graph.at(storage).bytes;
      std::vector<std::uint32_t>& users = lives_[row->second].users;
      if (users.empty() || users.back() != i) users.push_back(i);
    }
  }
  const auto is_here = [&](ActionIndex at) { return at >= stretch.begin && at < stretch.end; };
  for (const auto& [binding, row] : rows) {
    const Lifetime& life = actions.bindings[binding];
    lives_[row].begins = is_here(life.begin);
    lives_[row].ends = life.end && is_here(*life.end);
    lives_[row].is_own = life.end && std::ranges::all_of(life.users, is_here);
  }
}

Bytes StretchMemory::peak(const std::vector<FusionGroup>& order) const {
  std::vector<std::uint32_t> place(launches_);
  for (std::uint32_t i = 0; i < order.size(); ++i)
    for (const std::uint32_t launch : order[i]) place[launch] = i;
  std::vector<Bytes> takes(order.size()), gives(order.size());
  for (const Life& life : lives_) {
    const auto by_place = [&](std::uint32_t launch) { return place[launch]; };
    const std::uint32_t first = place[*std::ranges::min_element(life.users, {}, by_place)];
    const std::uint32_t last = place[*std::ranges::max_element(life.users, {}, by_place)];
    if (life.begins && life.ends && life.is_own && first == last && life.users.size() > 1) continue;
    if (life.begins) takes[first] += life.bytes;
    if (life.ends) gives[last] += life.bytes;
  }
  Bytes now = before_, peak = before_;
  for (std::size_t i = 0; i < order.size(); ++i) {
    now += takes[i];
    peak = std::max(peak, now);
    now -= gives[i];
  }
  return peak;
}

}  // namespace foregather::sim
