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

Error Workload::of_named_file(std::string_view key, const std::string& name, Error error) const {
  const auto found = sources.find(key);
  if (error.place != name || found == sources.end()) return error;
  const bool names_key = found->second.by == KeySource::By::command_line;
  error.message = names_key ? error.text() : fmt::format("{}: {}", key, error.text());
  error.place = found->second.value_place;
  return error;
}

}  // namespace foregather::plan
