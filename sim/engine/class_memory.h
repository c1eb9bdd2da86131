// The memory of one rank class on a device that exists only as a number of bytes.
#pragma once

#include "core/alloc/simulated_memory.h"
#include "core/ledger/program_memory.h"

namespace foregather::sim {

using ledger::MemoryPeaks;
using ledger::MemoryStep;

struct SimulatedDevice {
  alloc::SimulatedMemory device;
};

/// `capacity` in bytes; 0: unlimited.
class ClassMemory final : private SimulatedDevice, public ledger::ProgramMemory {
 public:
  ClassMemory(const Graph& graph, const Program& program, const alloc::AllocConfig& config,
              Bytes capacity, alloc::EventClock& clock, bool record)
      : SimulatedDevice{alloc::SimulatedMemory(capacity == 0 ? alloc::SimulatedMemory::kUnlimited
                                                             : capacity)},
        ProgramMemory(graph, program, config, device, clock, record) {}
};

}  // namespace foregather::sim
