// What kind of source a file is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace foregather::tasks {

enum class SourceKind : std::uint8_t {
  workload,  ///< TOML
  schedule,  ///< a dump of core/ir
  thunder,   ///< a printed Thunder trace
};

/// Decides by content, and by the name for a workload. Everything else is an error that lists what
/// can be read.
Result<SourceKind> sniff(std::string_view content, const std::string& path);

}  // namespace foregather::tasks
