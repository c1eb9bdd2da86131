// The argument of --step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/result.h"

namespace foregather::cli {

/// The number of a step; nothing for an empty text. Error: no number, or a negative one.
Result<std::optional<std::int64_t>> parse_step(const std::string& text);

}  // namespace foregather::cli
