#include "runtime/groups.h"

#include <algorithm>

namespace foregather::runtime {

Ranks ranks_of(const Graph& graph) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> all;
  for (std::uint32_t c = 0; c < graph.classes.size(); ++c)
    for (const std::uint32_t rank : graph.ranks_of(graph.classes[c].ranks))
      all.emplace_back(rank, c);
  std::sort(all.begin(), all.end());
  Ranks ranks;
  for (const auto& [rank, c] : all) {
    ranks.ranks.push_back(rank);
    ranks.class_of.push_back(c);
  }
  return ranks;
}

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
