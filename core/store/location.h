// RUN.db or RUN.db:NAME.
#pragma once

#include <optional>
#include <string>

namespace foregather::store {

struct Location {
  std::string path;
  std::optional<std::string> name;  ///< of one run
};

/// Splits at the first colon behind the name of a file, else at the last one, unless a file of the
/// whole name exists.
Location parse_location(const std::string& text);

}  // namespace foregather::store
