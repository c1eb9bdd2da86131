// DeepCompile's list scheduler: gathers in the order that frees them soonest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/units.h"

namespace foregather::sim {

/// A node of an FX graph; args are earlier nodes.
struct FreeNode {
  std::vector<std::uint32_t> args;
  bool is_gather = false;
  bool is_reduce = false;
  bool is_output = false;
  Ns time = 0;                 ///< on the device
  Bytes bytes = 0;             ///< of a gather: its output
  std::uint32_t last_use = 0;  ///< of a gather: the last node that uses it
  std::string name;            ///< of a gather: breaks ties
};

/// The sort keys of candidates. `since_2026`: as of 2026-05-29; `until_2026`: the first branch
/// sorts all candidates by free_cost alone, the second by free_acc_mem alone (reference:
/// DeepCompile §C.4).
enum class FreeRule : std::uint8_t { since_2026, until_2026 };

/// fast_free_schedule of deepspeed/compile/list_schedule.py: the nodes in their new order, each
/// after its args. Repeats until no gather is left: candidates are the gathers whose last use needs
/// the fewest gathers that are not scheduled yet. If one of them reaches its last use without a
/// further gather, schedules a candidate and all up to its last use, else a gather alone; then the
/// reductions and outputs that no longer miss a gather. What is left comes in the given order.
/// Cost: gathers × (nodes + args) at worst.
std::vector<std::uint32_t> fast_free_order(const std::vector<FreeNode>& nodes, FreeRule rule);

}  // namespace foregather::sim
