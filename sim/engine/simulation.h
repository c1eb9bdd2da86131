// What simulating a graph yields.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/ir/graph.h"
#include "core/ledger/program_memory.h"

namespace foregather::sim {

/// Why an op did not start earlier.
enum class Reason : std::uint8_t {
  start,         ///< nothing before it
  host,          ///< its launch; `bound_by` is the op that the host thread last waited for, if any
  stream,        ///< the op before it on its stream
  event,         ///< an op behind an event that its stream waited for
  communicator,  ///< the collective before it
  rendezvous,    ///< the last rank to arrive; bound_by is its part of the collective
  dependency,    ///< an explicit dep
};

/// One execution of one op, times since the begin of the simulation.
struct OpTime {
  Ns issued = 0;    ///< the host finished launching it
  Ns start = 0;     ///< it occupies its stream
  Ns transfer = 0;  ///< a collective: all ranks have arrived; else = start
  Ns end = 0;
  std::uint32_t bound_by = 0;        ///< row of Graph::ops; meaningful unless reason is start
  std::uint16_t bound_class = 0;     ///< class of that op
  bool bound_previous_step = false;  ///< it belongs to the step before, or there is none
  Reason reason = Reason::start;
};

using ledger::Binding;
using ledger::MemoryPeaks;
using ledger::MemoryPoint;
using ledger::SegmentChange;

/// The simulation ends there: the steps under way are given as far as they came (the memory of
/// other classes whole where nothing is recorded).
struct OutOfMemory {
  std::uint16_t rank_class = 0;
  std::optional<OpId> op;  ///< launched next after the failing alloc
  StorageId storage;
  Bytes requested = 0;
  bool in_first_step = false;  ///< then the steady step holds nothing but the same peaks
};

/// One step of one class.
struct StepResult {
  Ns begin = 0;                         ///< the device end of the step before (0 for the first)
  Ns end = 0;                           ///< the device end of this one
  Ns host_end = 0;                      ///< the host has issued everything
  std::vector<OpTime> ops;              ///< by row − program.ops.first; where `ran`
  std::vector<std::uint8_t> ran;        ///< same index: 1 if the op ran in this step
  std::vector<Binding> bindings;        ///< only when recorded
  std::vector<SegmentChange> segments;  ///< only when recorded
  std::vector<MemoryPoint> memory;      ///< only when recorded
  MemoryPeaks peaks;

  Ns time() const { return end - begin; }
};

struct ClassResult {
  StepResult first;
  StepResult steady;
};

struct Simulation {
  std::vector<ClassResult> classes;  ///< as Graph::classes
  std::optional<OutOfMemory> oom;    ///< then results end there
  std::uint32_t steps = 0;           ///< simulated until the body repeated, first included
  /// Step time and reserved bytes repeated, and classes that meet have one step time.
  bool converged = true;
  /// Allocator synchronisations on work of ranks that were not simulated that far yet; taken as
  /// instant. Only possible with several classes near the capacity.
  std::uint32_t unresolved_synchronizations = 0;
};

}  // namespace foregather::sim
