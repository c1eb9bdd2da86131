#include "sim/memory/host_order.h"

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

}  // namespace foregather::sim
