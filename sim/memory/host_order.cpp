#include "sim/memory/host_order.h"

#include <algorithm>

namespace foregather::sim {

std::vector<HostPoint> host_order(const Program& program, Section section) {
  const auto threads = static_cast<std::uint32_t>(program.threads.size());
  std::vector<std::uint32_t> at(threads, 0);
  std::vector<HostPoint> order;
  const auto advance = [&](std::uint32_t thread) {
    const auto actions = program.threads[thread].actions(section);
    const std::uint32_t begin = at[thread];
    for (; at[thread] < actions.size(); ++at[thread]) {
      const Action& action = actions[at[thread]];
      if (action.kind == ActionKind::host_wait_action &&
          (action.a >= threads || at[action.a] <= action.b))
        break;
      order.push_back({thread, at[thread]});
    }
    return at[thread] != begin;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::uint32_t thread = 0; thread < threads; ++thread) moved |= advance(thread);
  }
  return order;
}

HostKnowledge::HostKnowledge(const Program& program, Section section,
                             const std::vector<HostPoint>& order)
    : syncs_(program.threads.size()) {
  for (const HostThread& thread : program.threads)
    sizes_.push_back(static_cast<std::uint32_t>(thread.actions(section).size()));
  for (const HostPoint point : order) {
    const Action& action = program.threads[point.thread].actions(section)[point.index];
    if (action.kind != ActionKind::host_wait_action) continue;
    auto& own = syncs_[point.thread];
    std::vector<std::uint32_t> done =
        own.empty() ? std::vector<std::uint32_t>(syncs_.size(), 0) : own.back().done;
    for (std::uint32_t other = 0; other < done.size(); ++other)
      done[other] = std::max(done[other], done_before({action.a, action.b}, other));
    done[action.a] = std::max(done[action.a], action.b + 1);
    own.push_back({point.index, std::move(done)});
  }
}

std::uint32_t HostKnowledge::done_before(HostPoint point, std::uint32_t other) const {
  if (point.thread == other) return point.index;
  const auto& own = syncs_[point.thread];
  const auto after =
      std::upper_bound(own.begin(), own.end(), point.index,
                       [](std::uint32_t index, const Sync& sync) { return index < sync.index; });
  return after == own.begin() ? 0 : std::prev(after)->done[other];
}

std::uint32_t HostKnowledge::first_after(HostPoint point, std::uint32_t thread) const {
  if (point.thread == thread) return point.index;
  const auto& own = syncs_[thread];
  const auto found = std::partition_point(own.begin(), own.end(), [&](const Sync& sync) {
    return sync.done[point.thread] <= point.index;
  });
  return found == own.end() ? sizes_[thread] : found->index;
}

}  // namespace foregather::sim
