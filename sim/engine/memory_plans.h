// Memory plans that schedules share.
#pragma once

#include <list>
#include <memory>
#include <mutex>

#include "core/alloc/config.h"
#include "core/ir/graph.h"
#include "sim/engine/memory_plan.h"
#include "sim/engine/signature.h"

namespace foregather::sim {

/// The latest plans by what they follow from: the actions of a program with the sizes that they
/// allocate, the allocator's configuration and the capacity. Schedules that differ in nothing else
/// (prices, communicators, collectives' sizes) find each other's. Thread safe.
class MemoryPlans {
 public:
  /// Keeps at most `most` plans: the ones asked for last.
  explicit MemoryPlans(std::size_t most = 32) : most_(most) {}

  /// Null if times could matter. `actions` of the program. Cost: linear in the program, a byte in a
  /// fraction of a nanosecond.
  std::shared_ptr<MemoryPlan> find(const std::shared_ptr<const Graph>& graph, ProgramId program,
                                   const Signature& actions, const alloc::AllocConfig& config,
                                   Bytes capacity);

 private:
  struct Entry {
    Signature actions{}, storages{};
    alloc::AllocConfig config;
    Bytes capacity = 0;
    std::shared_ptr<const MemoryPlan::Turns> turns;
    std::shared_ptr<MemoryPlan> plan;
  };

  std::mutex mutex_;
  std::size_t most_;
  std::list<Entry> entries_;  ///< the one asked for last comes first
};

}  // namespace foregather::sim
