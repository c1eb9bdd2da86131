// A command under a watcher: started, its signals passed on, its end told.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace foregather::tasks {

struct CommandEnd {
  pid_t process = 0;
  int exit_code = 0;  ///< as a shell tells it: 128 and the number of the signal that killed it
};

/// Runs a command with more variables in its environment and waits for it. `watch` is called twice
/// a second meanwhile. What ends the watcher ends the command first: kEndingSignals are passed
/// on, SIGINT and SIGQUIT unless they came from the terminal, which sends them to the command
/// itself. Error: it could not be started.
Result<CommandEnd> run_command(const std::vector<std::string>& command,
                               const std::map<std::string, std::string>& variables,
                               const std::function<void()>& watch);

}  // namespace foregather::tasks
