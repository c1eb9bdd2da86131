// The report on a memory snapshot, for a person.
#pragma once

#include <string>

#include "tasks/memory.h"

namespace foregather::cli {

/// For each device: is the replay exact, the peaks, who holds the bytes, what other configurations
/// would have done.
std::string memory_text(const tasks::MemoryReport& report);

}  // namespace foregather::cli
