// Thunder traces as sources of a prediction.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "traces/thunder.h"

namespace foregather::tasks {

/// The part of a file that decides whether it is a Thunder trace.
std::string_view thunder_head(std::string_view text);

/// What the reader could not read, for the user.
std::vector<std::string> thunder_warnings(const traces::ThunderFile& file, const std::string& path);

}  // namespace foregather::tasks
