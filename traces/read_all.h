// A whole text in memory.
#pragma once

#include <string>

#include "core/base/result.h"
#include "traces/text_source.h"

namespace foregather::traces {

/// What is left of `source`. Errors, with the place `name`: more than `limit` bytes; those of
/// read().
Result<std::string> read_all(TextSource& source, const std::string& name, Bytes limit);

}  // namespace foregather::traces
