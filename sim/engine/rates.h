// How fast overlapped ops run.
#pragma once

#include <cstdint>
#include <span>

#include "sim/cost/cost_table.h"

namespace foregather::sim {

using Demand = std::array<std::uint16_t, kResources>;

/// Speeds of ops that run at one time on one device, in 1/kWhole of their speed alone; at least 1.
/// Each resource is shared max-min fair: who asks for less than an equal share gets what it asks
/// for, the rest is divided among the others. An op runs at the speed of its scarcest resource.
/// Cost: ops² × resources in the worst case; nothing is divided where a resource is not short.
void share(std::span<const Demand* const> demands, std::span<std::uint32_t> speeds);

/// The same of two ops.
void share(const Demand& a, const Demand& b, std::span<std::uint32_t, 2> speeds);

}  // namespace foregather::sim
