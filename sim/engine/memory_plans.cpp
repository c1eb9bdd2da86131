#include "sim/engine/memory_plans.h"

#include <algorithm>

namespace foregather::sim {

std::shared_ptr<MemoryPlan> MemoryPlans::find(const std::shared_ptr<const Graph>& graph,
                                              ProgramId program, const Signature& actions,
                                              const alloc::AllocConfig& config, Bytes capacity) {
  const Program& rows = graph->at(program);
  const Signature storages = storages_signature(*graph, rows);
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->actions != actions || entry->storages != storages || entry->config != config)
      continue;
    const bool fits =
        entry->capacity == capacity || entry->plan == nullptr ||
        (entry->plan->holds_from(capacity) && entry->plan->holds_from(entry->capacity));
    if (!fits) continue;
    entries_.splice(entries_.begin(), entries_, entry);
    return entry->plan;
  }
  const auto alike = std::ranges::find(entries_, actions, &Entry::actions);
  auto turns = alike != entries_.end() ? alike->turns : MemoryPlan::take_turns(rows);
  entries_.push_front({actions, storages, config, capacity, turns,
                       MemoryPlan::make(*graph, rows, config, capacity, graph, turns)});
  if (entries_.size() > most_) entries_.pop_back();
  return entries_.front().plan;
}

}  // namespace foregather::sim
