// Arguments -> options of a command.
#pragma once

#include <span>
#include <string>

#include "cli/command.h"

namespace foregather::cli {

/// Parses the arguments and runs the command they name; `version` is the answer to --version. The
/// exit code: of the command; 0 for help
/// and version; 2 for bad usage, with one line on standard error.
int dispatch(std::span<const Command> commands, const std::string& version, int argc,
             const char* const* argv);

}  // namespace foregather::cli
