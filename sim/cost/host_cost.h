// What the host thread spends.
#pragma once

#include "core/ir/graph.h"
#include "sim/cost/cost_table.h"
#include "sim/cost/hardware.h"

namespace foregather::sim {

/// Times of the actions that are not launches.
HostPrices host_prices(const Hardware& hardware);

/// ns to dispatch an op and launch its kernels. A collective has one dispatch that includes its
/// launch; a fixed cost is treated like any other of its kind.
double host_time(const Cost& cost, const Hardware& hardware);

}  // namespace foregather::sim
