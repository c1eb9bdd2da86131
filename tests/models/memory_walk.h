// Live bytes of a schedule at chosen instants, by cause.
#pragma once

#include <array>
#include <string>

#include "core/ir/graph.h"

namespace foregather::test {

/// Bytes of bound storages by cause.
struct LiveNow {
  std::array<Bytes, kScheduleCauses> by_cause{};
  Bytes total = 0;

  Bytes of(Cause cause) const { return by_cause[static_cast<std::size_t>(cause)]; }
};

/// What is live in host order in one execution of a section of the graph's only program.
struct LiveStep {
  LiveNow before;             ///< when the first forward begins
  LiveNow after_forward;      ///< when the last backward begins
  LiveNow after_backward;     ///< when the optimizer phase begins
  LiveNow after;              ///< when the section ends
  LiveNow peak_of_passes;     ///< the largest total in forward and backward
  LiveNow peak_of_optimizer;  ///< the largest total after them
};

struct LiveSteps {
  LiveStep first, steady;
};

/// The steady step is the second execution of section body.
LiveSteps live_steps(const Graph& graph);

}  // namespace foregather::test
