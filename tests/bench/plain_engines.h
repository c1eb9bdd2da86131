// A schedule simulated as one would write it in an afternoon, and as fast as this machine can.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ir/graph.h"
#include "sim/cost/cost_table.h"

namespace foregather::bench {

/// The first section of one host thread, as flat arrays: launches, records and waits.
struct FlatSchedule {
  std::vector<ActionKind> kind;
  std::vector<std::uint8_t> stream;
  std::vector<std::uint32_t> event;  ///< of a record or a wait
  std::vector<Ns> host;              ///< what the action takes of it
  std::vector<Ns> duration;          ///< of a launch
  std::uint32_t streams = 0, events = 0;
};
FlatSchedule flat_schedule(const Graph& graph, const sim::CostTable& prices);

struct PlainTime {
  Ns issued = 0, start = 0, end = 0;
};

/// When the device is done; `times` gets a row a launch. Both give what sim::simulate() gives
/// without contention and memory. Events in one binary heap by time; each action and each end of an
/// op is one.
Ns heap_simulation(const FlatSchedule& schedule, std::vector<PlainTime>& times);
/// One pass over the arrays, a few numbers a stream: the machine's limit.
Ns list_simulation(const FlatSchedule& schedule, std::vector<PlainTime>& times);

}  // namespace foregather::bench
