// Help texts.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/command.h"

namespace foregather::cli {

/// What `foregather --help` prints.
std::string help_text(std::span<const Command> commands);

/// What `foregather COMMAND --help` prints: a screen at most.
std::string help_text(const Command& command);

/// What `foregather help COMMAND` prints: every paragraph and example.
std::string manual_text(const Command& command);

/// "-o, --output FILE".
std::string shown_names(const Option& option);

/// " -f FORMAT -o FILE": the options that a command cannot do without.
std::string required_options(const Command& command);

/// An option's text as far as two lines hold it: its first sentence, or what is before its first
/// semicolon or colon.
std::string brief(std::string_view doc);

/// `text` broken at spaces into lines of at most `width` columns, each after `indent` spaces.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t width = 92);

}  // namespace foregather::cli
