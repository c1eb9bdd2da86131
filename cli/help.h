// Help texts.
#pragma once

#include <span>
#include <string>

#include "cli/command.h"

namespace foregather::cli {

/// What `foregather --help` prints.
std::string help_text(std::span<const Command> commands);

/// What `foregather COMMAND --help` prints: a screen at most.
std::string help_text(const Command& command);

/// What `foregather help COMMAND` prints: every paragraph and example.
std::string manual_text(const Command& command);

/// `text` broken at spaces into lines of at most `width` columns, each after `indent` spaces.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t width = 92);

}  // namespace foregather::cli
