// The formats that a run can be written to.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "core/base/result.h"
#include "core/run/run.h"

namespace foregather::traces {

/// Where a writer puts its text, piece by piece.
using TextSink = std::function<Status(std::string_view)>;

/// One format that a run can be written to.
struct Format {
  std::string_view name;  ///< as `export --format` takes it
  std::string_view doc;   ///< one sentence
  Status (*write)(run::RunView, const TextSink&);
};

std::span<const Format> formats();

/// The format of that name; the error names the known ones.
Result<Format> find_format(std::string_view name);

}  // namespace foregather::traces
