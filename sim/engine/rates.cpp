#include "sim/engine/rates.h"

#include <algorithm>

namespace foregather::sim {
namespace {

// The level at which a resource of size kWhole is used up when nobody gets more than the level.
std::uint32_t fair_level(std::span<const Demand* const> demands, std::size_t resource) {
  auto level = kWhole / static_cast<std::uint32_t>(demands.size());
  while (true) {
    std::uint32_t served = 0;
    std::uint32_t greedy = 0;
    for (const Demand* demand : demands) {
      const std::uint32_t wish = (*demand)[resource];
      wish <= level ? served += wish : ++greedy;
    }
    if (greedy == 0) return kWhole;
    const std::uint32_t next = (kWhole - served) / greedy;
    if (next == level) return level;
    level = next;  // grows, since the satisfied ask for less than the level
  }
}

}  // namespace

void share(std::span<const Demand* const> demands, std::span<std::uint32_t> speeds) {
  std::fill(speeds.begin(), speeds.end(), std::uint32_t{kWhole});
  if (demands.size() < 2) return;
  for (std::size_t resource = 0; resource < kResources; ++resource) {
    std::uint32_t total = 0;
    for (const Demand* demand : demands) total += (*demand)[resource];
    if (total <= kWhole) continue;
    const std::uint32_t level = fair_level(demands, resource);
    for (std::size_t i = 0; i < demands.size(); ++i) {
      const std::uint32_t wish = (*demands[i])[resource];
      if (wish <= level) continue;
      speeds[i] = std::min(speeds[i], std::max(1U, level * kWhole / wish));
    }
  }
}

void share(const Demand& a, const Demand& b, std::span<std::uint32_t, 2> speeds) {
  speeds[0] = speeds[1] = kWhole;
  constexpr std::uint32_t kHalf = kWhole / 2;
  for (std::size_t resource = 0; resource < kResources; ++resource) {
    const std::uint32_t wish_a = a[resource];
    const std::uint32_t wish_b = b[resource];
    if (wish_a + wish_b <= kWhole) [[likely]]
      continue;
    // Who asks for at most half gets it, and leaves the rest to the other.
    const std::uint32_t level = kWhole - std::min({wish_a, wish_b, kHalf});
    if (wish_a > level) speeds[0] = std::min(speeds[0], std::max(1U, level * kWhole / wish_a));
    if (wish_b > level) speeds[1] = std::min(speeds[1], std::max(1U, level * kWhole / wish_b));
  }
}

}  // namespace foregather::sim
