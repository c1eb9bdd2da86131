// Do the ranks of each communicator launch the same collectives? Internal to core/ir.
#pragma once

#include <array>
#include <vector>

#include "core/ir/graph.h"
#include "core/ir/symbolic_run.h"

namespace foregather {

/// The collectives of one program in launch order, by section.
using CollectiveLists = std::array<std::vector<OpId>, kSections>;

/// Compares, for each communicator and section, the sequence of (kind, message bytes) that the rank
/// classes launch. A class takes part if one of its ranks is in the group; if the group has several
/// instances every class takes part, as instances are alike. Also reports a class that launches on
/// a communicator although not all of its ranks are in the group. `launched` is by ProgramId.
/// Linear in collectives, and communicators times ranks.
void compare_collectives(const Graph& graph, const std::vector<CollectiveLists>& launched,
                         ProblemList& problems);

}  // namespace foregather
