#include "sim/sweep/pareto.h"

#include <algorithm>

namespace foregather::sim {

bool dominates(const Objectives& a, const Objectives& b) {
  for (std::size_t i = 0; i < kObjectives; ++i)
    if (a[i] > b[i]) return false;
  return a != b;
}

bool ParetoFront::add(std::int64_t id, const Objectives& objectives) {
  for (const Member& member : members_)
    if (member.objectives == objectives || dominates(member.objectives, objectives)) return false;
  std::erase_if(members_,
                [&](const Member& member) { return dominates(objectives, member.objectives); });
  members_.push_back({id, objectives});
  return true;
}

}  // namespace foregather::sim
