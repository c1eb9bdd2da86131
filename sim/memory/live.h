// The memory model `live`: bytes of bound storages in program order, without an allocator.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "core/ir/graph.h"

namespace foregather::sim {

/// The peak of one section of one program.
struct LivePeak {
  Bytes bytes = 0;
  std::array<Bytes, kScheduleCauses> by_cause{};  ///< at the peak
  std::optional<OpId> at;                         ///< launched next after the peak was reached
};

struct LiveMemory {
  LivePeak first;
  LivePeak steady;
};

/// Requested bytes, without rounding, streams or caching; what is bound before a section counts in
/// it. The steady step is the second body. One row a program. Linear in actions.
std::vector<LiveMemory> live_memory(const Graph& graph);

/// By row of Graph::ops: the bytes that are bound when a steady step of program 0 launches it; 0:
/// it does not.
std::vector<Bytes> live_at_launch(const Graph& graph);

}  // namespace foregather::sim
