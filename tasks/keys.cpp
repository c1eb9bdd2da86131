#include "tasks/keys.h"

#include "core/plan/workload_keys.h"
#include "sim/cost/hardware.h"
#include "sim/passes/registry.h"

namespace foregather::tasks {
namespace {

std::vector<std::string> texts(const std::vector<std::string_view>& names) {
  return {names.begin(), names.end()};
}

}  // namespace

std::vector<KeyHelp> workload_keys() {
  std::vector<KeyHelp> keys;
  for (const plan::WorkloadKey& key : plan::workload_keys())
    keys.push_back({std::string(key.name), std::string(key.values), std::string(key.default_value),
                    std::string(key.doc)});
  return keys;
}

std::string what_if_help() { return sim::passes_help(); }

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const sim::PassInfo* const pass : sim::passes()) names.emplace_back(pass->name);
  return names;
}

std::vector<std::string> hardware_names() { return texts(sim::hardware_names()); }
std::vector<std::string> topology_names() { return texts(sim::topology_names()); }
std::vector<std::string> fabric_names() { return texts(sim::fabric_names()); }

}  // namespace foregather::tasks
