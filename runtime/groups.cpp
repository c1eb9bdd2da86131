#include "runtime/groups.h"

#include <algorithm>

namespace foregather::runtime {

std::vector<Members> instances_of(const Graph& graph, GroupId id,
                                  std::span<const std::uint32_t> ranks) {
  const Group& group = graph.at(id);
  const auto listed = graph.ranks_of(group.ranks);
  std::vector<bool> taken(graph.world_size);
  std::vector<Members> instances;
  for (std::uint32_t i = 0; i < group.instances && !listed.empty(); ++i) {
    std::uint32_t lowest = 0;
    while (lowest < taken.size() && taken[lowest]) ++lowest;
    const std::uint32_t shift = i == 0 ? 0 : lowest - listed.front();
    Members members;
    members.group_size = group.ranks.count;
    const bool is_free = std::ranges::all_of(listed, [&](std::uint32_t rank) {
      return rank + shift < taken.size() && !taken[rank + shift];
    });
    if (!is_free) break;
    for (std::uint32_t position = 0; position < listed.size(); ++position) {
      const std::uint32_t rank = listed[position] + shift;
      taken[rank] = true;
      const auto row = std::ranges::lower_bound(ranks, rank);
      if (row == ranks.end() || *row != rank) continue;
      members.ranks.push_back(static_cast<std::uint32_t>(row - ranks.begin()));
      members.positions.push_back(position);
    }
    if (!members.ranks.empty()) instances.push_back(std::move(members));
  }
  return instances;
}

}  // namespace foregather::runtime
