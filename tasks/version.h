#pragma once

#include <string_view>

namespace foregather::tasks {

/// "foregather 0.1.0".
std::string_view version();

}  // namespace foregather::tasks
