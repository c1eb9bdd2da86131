// By what schedules that are alike are recognised without keeping both.
#pragma once

#include <array>
#include <cstdint>

#include "core/ir/graph.h"

namespace foregather::sim {

/// Sums of the rows of tables. What differs has the same once in 2^64 or less.
/// Cost: linear in the rows, a byte in a fraction of a nanosecond.
using Signature = std::array<std::uint64_t, 2>;

/// What the host threads do, whatever the ops and storages are that they name.
Signature actions_signature(const Program& program);
/// Which of the graph's costs, of whatever sizes, the program's ops have, and where they may begin
/// a block.
Signature launches_signature(const Graph& graph, const Program& program);
/// What the program allocates: sizes, causes, and the tensors of each storage.
Signature storages_signature(const Graph& graph, const Program& program);

}  // namespace foregather::sim
