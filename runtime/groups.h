// Which ranks meet: the instances of a group.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ir/graph.h"

namespace foregather::runtime {

/// The ranks that a schedule has.
struct Ranks {
  std::vector<std::uint32_t> ranks;     ///< ascending
  std::vector<std::uint32_t> class_of;  ///< by row of `ranks`
};
Ranks ranks_of(const Graph& graph);

/// Who meets on one instance of a group.
struct Members {
  std::vector<std::uint32_t> ranks;      ///< rows of the job's ranks, in order of the group
  std::vector<std::uint32_t> positions;  ///< of each in the group
  std::uint32_t group_size = 1;          ///< with ranks that the schedule does not have
};

/// The instances that have any of `ranks` (ascending). The first is what the group lists; each next
/// one is the same list moved to the lowest rank that is in none yet, so that lists of neighbours
/// and of every n-th rank both cover the job. An instance that would need a rank which another one
/// has is left out.
std::vector<Members> instances_of(const Graph& graph, GroupId group,
                                  std::span<const std::uint32_t> ranks);

}  // namespace foregather::runtime
