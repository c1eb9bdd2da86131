// What is made of the commands' descriptions besides help: man pages and completions of shells.
#pragma once

#include <span>
#include <string>

#include "cli/command.h"

namespace foregather::cli {

/// Page foregather(1), in troff's man macros.
std::string man_page(std::span<const Command> commands);
/// Page foregather-COMMAND(1).
std::string man_page(const Command& command);

/// Scripts that complete commands, their options and names of files.
std::string bash_completion(std::span<const Command> commands);
std::string zsh_completion(std::span<const Command> commands);
std::string fish_completion(std::span<const Command> commands);

}  // namespace foregather::cli
