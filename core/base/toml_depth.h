// A guard in front of the TOML parser.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace foregather {

/// toml++ makes a nested table for each part of a dotted key and walks them by recursion. More than
/// 64 parts are an error at FILE:LINE. Strings and comments do not count. Linear.
Status check_toml_depth(std::string_view text, const std::string& path);

}  // namespace foregather
