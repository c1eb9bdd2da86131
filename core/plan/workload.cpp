#include "core/plan/workload.h"

namespace foregather::plan {

bool Workload::is_own(std::string_view key) const {
  const auto found = sources.find(key);
  return found != sources.end() && found->second.by != KeySource::By::other_tool;
}

std::string Workload::place_of(std::initializer_list<std::string_view> keys) const {
  const KeySource* last = nullptr;
  for (const std::string_view key : keys) {
    const auto found = sources.find(key);
    if (found != sources.end() && (last == nullptr || found->second.by > last->by))
      last = &found->second;
  }
  return last == nullptr ? path : last->place;
}

}  // namespace foregather::plan
