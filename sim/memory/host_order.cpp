#include "sim/memory/host_order.h"

#include <optional>

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

bool has_one_host_order(const Program& program, Section section) {
  const auto threads = static_cast<std::uint32_t>(program.threads.size());
  std::vector<std::uint32_t> at(threads, 0);
  const auto can_go_on = [&](std::uint32_t thread) {
    const auto actions = program.threads[thread].actions(section);
    if (at[thread] == actions.size()) return false;
    const Action& action = actions[at[thread]];
    return action.kind != ActionKind::host_wait_action ||
           (action.a < threads && at[action.a] > action.b);
  };
  std::optional<std::uint32_t> last;
  while (true) {
    std::optional<std::uint32_t> next;
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      if (!can_go_on(thread)) continue;
      if (next) return false;
      next = thread;
    }
    if (!next) return last.value_or(0) == 0;
    if (!last && *next != 0) return false;
    last = next;
    ++at[*next];
  }
}

}  // namespace foregather::sim
