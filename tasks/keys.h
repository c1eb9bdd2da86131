// The keys of a workload, for help texts.
#pragma once

#include <string>
#include <vector>

namespace foregather::tasks {

struct KeyHelp {
  std::string name, values, default_value, doc;
};

/// All keys, in the order of the documentation.
std::vector<KeyHelp> workload_keys();

/// The passes of --what-if, one a line.
std::string what_if_help();
/// Their names, in the same order.
std::vector<std::string> pass_names();

/// Names of the built-in hardware files, sorted.
std::vector<std::string> hardware_names();
/// Of the topologies and fabrics that go over them.
std::vector<std::string> topology_names();
std::vector<std::string> fabric_names();

}  // namespace foregather::tasks
