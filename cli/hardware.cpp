#include "cli/hardware.h"

namespace foregather::cli {

Result<std::vector<std::string>> with_hardware(std::vector<std::string> sets,
                                               const std::string& hardware) {
  if (hardware.empty()) return sets;
  for (const std::string& set : sets)
    for (const char* const key : {"cluster.hardware=", "cluster.hw="})
      if (set.starts_with(key) && set != key + hardware)
        return fail_at("--hw " + hardware,
                       "--set {} names the hardware, too, expected one of the two", set);
  sets.push_back("cluster.hardware=" + hardware);
  return sets;
}

}  // namespace foregather::cli
