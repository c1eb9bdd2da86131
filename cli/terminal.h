// Standard output and standard error.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace foregather::cli {

/// Writes all of `text` to standard output; the exit code: 0, or 1 after saying why it failed.
int print(std::string_view text);

/// One line on standard error: "foregather: MESSAGE".
void complain(std::string_view message);

/// Says what is wrong; the exit code of the error.
int give_up(const Error& error);

}  // namespace foregather::cli
