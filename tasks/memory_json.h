// `foregather memory --json`.
#pragma once

#include <string>

#include "tasks/memory.h"

namespace foregather::tasks {

/// One JSON object and a newline; docs/formats.md describes its fields.
std::string to_json(const MemoryReport& report);

}  // namespace foregather::tasks
