// Random valid schedules for properties.
#pragma once

#include <cstdint>
#include <random>

#include "core/ir/graph.h"

namespace foregather::test {

/// A valid schedule of up to a few hundred actions: one or two programs that agree on their
/// collectives, one to three threads that hand over to each other, ops that read and write random
/// parts of random storages, and after each section a full device wait. What two streams share is
/// ordered by an event, a host wait or a dep. The same seed gives the same graph.
Graph random_graph(std::uint64_t seed);

}  // namespace foregather::test
