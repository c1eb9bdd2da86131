// The discrete-event core: graph × prices -> times and memory.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "core/alloc/config.h"
#include "core/base/result.h"
#include "core/ir/graph.h"
#include "sim/cost/cost_table.h"
#include "sim/engine/repeats.h"
#include "sim/engine/signature.h"
#include "sim/engine/simulation.h"

namespace foregather::sim {

class LaunchTable;
class Meetings;
class MemoryPlan;
class MemoryPlans;
struct StepTimes;
struct EventRecord;

/// Options that change the result.
struct EngineOptions {
  /// Overlapped ops share resources; never those of a schedule with leads (see Cost::lead).
  bool contention = true;
  bool memory = true;  ///< run the allocator; off: peaks are 0
  Bytes capacity = 0;  ///< device bytes that the allocator may reserve; 0: unlimited
  alloc::AllocConfig alloc;
  bool record_memory = true;  ///< fill bindings and memory curves
  bool once =
      false;  ///< the first step alone, given as the steady one; `first` has its figures, no rows
  /// Give up on convergence after so many steady steps, ten times as many where classes that meet
  /// still differ in their step times.
  std::uint32_t max_bodies = 10;
};

/// Simulates a graph again and again with other prices. What does not depend on prices is kept:
/// with record_memory off, that is what the allocator does wherever it does not depend on device
/// time.
class Engine {
 public:
  /// The graph is borrowed and must be valid (see validate()). What the allocator does begins to be
  /// planned at once, on another processor if there is one.
  Engine(const Graph& graph, const EngineOptions& options);
  /// The same, with what the allocator does to graphs like it taken from `plans`, and in the memory
  /// of an engine that is not needed any more, with what also holds of this graph; null: anew.
  Engine(const std::shared_ptr<const Graph>& graph, const EngineOptions& options,
         MemoryPlans& plans, std::unique_ptr<Engine> before);
  ~Engine();

  /// Simulates the first step and then steady steps until step time and reserved bytes repeat.
  /// `prices` is indexed by RankClass::hardware. Errors: a deadlock (host threads or ranks that
  /// wait for each other), named by op key; a class without host threads.
  Result<Simulation> simulate(std::span<const CostTable> prices);
  /// Gives back what simulate() returned: its memory is used for the next one.
  void recycle(Simulation&& simulation);

 private:
  const Program& first_program() const { return graph_.at(graph_.classes.front().program); }
  bool may_skip() const;
  void plan_ahead();
  template <class Device>
  Result<Simulation> run(std::span<const CostTable> prices);

  const Graph& graph_;
  EngineOptions options_;
  std::unique_ptr<LaunchTable> launches_;
  std::unique_ptr<const Meetings> meetings_;
  std::vector<std::vector<StepTimes>> buffers_;     ///< of op times, by class
  std::vector<EventRecord> events_;                 ///< memory of the last ones
  std::vector<std::shared_ptr<MemoryPlan>> plans_;  ///< by class; null: no plan
  std::shared_ptr<const ProgramRepeats> repeats_;   ///< of the first class, if any may be skipped
  std::array<Signature, 2> repeats_of_{};           ///< what they follow from
  std::shared_ptr<const Graph> keep_;               ///< what holds the graph, where it is known
  std::jthread planner_;                            ///< ends before what it plans
};

/// The same, once.
Result<Simulation> simulate(const Graph& graph, std::span<const CostTable> prices,
                            const EngineOptions& options);

}  // namespace foregather::sim
