// The hardware files of this folder, embedded when the program is built.
#pragma once

#include <span>
#include <string_view>

namespace foregather::sim {

struct CatalogueEntry {
  std::string_view name;  ///< the file's name without ".toml"
  std::string_view text;
};

/// Sorted by name; lives as long as the program.
std::span<const CatalogueEntry> catalogue();

}  // namespace foregather::sim
