// What one cost row costs, before it is rounded into a Price.
#pragma once

#include <array>

#include "sim/cost/cost_table.h"

namespace foregather::sim {

/// Time in ns and shares of the machine's resources (0 to 1) while it runs alone.
struct Work {
  double time = 0;
  std::array<double, kResources> share{};

  double& operator[](Resource resource) { return share[static_cast<std::size_t>(resource)]; }
};

}  // namespace foregather::sim
