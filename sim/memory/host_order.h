// In which order the host threads of a program perform a section.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ir/graph.h"

namespace foregather::sim {

/// Action `index` of thread `thread` in some section.
struct HostPoint {
  std::uint32_t thread = 0;
  std::uint32_t index = 0;
};

/// One order that respects host_wait_action: a thread goes on until it waits for another one, then
/// the next thread that can goes on. Every action once; those of a deadlock are left out. Linear.
std::vector<HostPoint> host_order(const Program& program, Section section);

/// Is there no other order, whatever the times: can at each point only one thread go on, and does
/// thread 0 begin and end the section? Actions × threads.
bool has_one_host_order(const Program& program, Section section);

}  // namespace foregather::sim
