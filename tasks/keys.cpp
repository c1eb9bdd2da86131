#include "tasks/keys.h"

#include "core/plan/workload_keys.h"
#include "sim/cost/hardware.h"

namespace foregather::tasks {

std::vector<KeyHelp> workload_keys() {
  std::vector<KeyHelp> keys;
  for (const plan::WorkloadKey& key : plan::workload_keys())
    keys.push_back({std::string(key.name), std::string(key.values), std::string(key.default_value),
                    std::string(key.doc)});
  return keys;
}

std::vector<std::string> hardware_names() {
  std::vector<std::string> names;
  for (const std::string_view name : sim::hardware_names()) names.emplace_back(name);
  return names;
}

}  // namespace foregather::tasks
