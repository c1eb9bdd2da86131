#include "sim/passes/host_delays.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "sim/cost/rounding.h"

namespace foregather::sim {
namespace {

// Actions that the delays of a graph may become more: 52 days of the host's work.
constexpr std::size_t kMostParts = std::size_t{1} << 20;

// Divides the delays of a list. An action holds 4.3 s, so a longer delay becomes several. Returns
// where each action is now, of several the last; nothing: more of them than `parts` are left.
std::optional<std::vector<std::uint32_t>> divide_delays(std::vector<Action>& actions, double speed,
                                                        std::size_t& parts) {
  constexpr Ns kMost = std::numeric_limits<std::uint32_t>::max();
  std::vector<Action> divided;
  divided.reserve(actions.size());
  std::vector<std::uint32_t> places;
  places.reserve(actions.size());
  for (Action action : actions) {
    if (action.kind == ActionKind::host_delay) {
      Ns time = round_ns(static_cast<double>(action.a) / speed);
      for (; time > kMost; time -= kMost, --parts) {
        if (parts == 0) return std::nullopt;
        divided.push_back({ActionKind::host_delay, {}, static_cast<std::uint32_t>(kMost), 0});
      }
      action.a = static_cast<std::uint32_t>(time);
    }
    places.push_back(static_cast<std::uint32_t>(divided.size()));
    divided.push_back(action);
  }
  actions = std::move(divided);
  return places;
}

}  // namespace

bool has_host_delays(const Graph& graph) {
  for (const Program& program : graph.programs)
    for (const HostThread& thread : program.threads)
      for (const std::vector<Action>& section : thread.sections)
        if (std::ranges::any_of(section, [](const Action& action) {
              return action.kind == ActionKind::host_delay && action.a > 0;
            }))
          return true;
  return false;
}

bool divide_host_delays(Graph& graph, double speed) {
  std::size_t parts = kMostParts;
  for (Program& program : graph.programs) {
    for (std::size_t section = 0; section < kSections; ++section) {
      std::vector<std::vector<std::uint32_t>> places;  // by thread
      for (HostThread& thread : program.threads) {
        auto moved = divide_delays(thread.sections[section], speed, parts);
        if (!moved) return false;
        places.push_back(std::move(*moved));
      }
      for (HostThread& thread : program.threads)
        for (Action& action : thread.sections[section])
          if (action.kind == ActionKind::host_wait_action) action.b = places[action.a][action.b];
    }
  }
  return true;
}

}  // namespace foregather::sim
