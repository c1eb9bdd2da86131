// Standard output and standard error.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace foregather::cli {

/// Writes all of `text` to standard output; the exit code: 0, or 1 after saying why it failed. What
/// a terminal would obey or hide is escaped, but for line ends (core/base/printable.h): names in
/// the text that may hold some pass printable() before.
int print(std::string_view text);

/// The same for JSON, byte for byte.
int print_json(std::string_view text);

/// One line on standard error: "foregather: MESSAGE". Escapes as print() does, and line ends; cuts
/// what is too long to read (a path of a megabyte).
void complain(std::string_view message);

/// Says what is wrong; the exit code of the error.
int give_up(const Error& error);

}  // namespace foregather::cli
