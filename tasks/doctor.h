// The use case of `foregather doctor`: what this machine offers.
#pragma once

#include <string>
#include <vector>

namespace foregather::tasks {

/// One thing that was looked for.
struct Finding {
  std::string what;  ///< "GPU driver"
  bool present = false;
  std::string detail;   ///< what was found, or what failed
  std::string enables;  ///< what it is good for
  std::string fix;      ///< what to do if it is missing
};

/// Looks at the machine without changing it: opens libraries, reads /proc and /dev.
std::vector<Finding> examine_machine();

/// Does the loader find a library? It is opened in a process of its own: what it does when it is
/// loaded, be it a crash, stays there.
bool can_open(const char* library);

}  // namespace foregather::tasks
