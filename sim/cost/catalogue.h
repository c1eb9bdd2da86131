// The hardware files of this folder, embedded when the program is built.
#pragma once

#include <span>
#include <string_view>

namespace foregather::sim {

struct CatalogueEntry {
  std::string_view name;  ///< the file's name without ".toml"
  std::string_view text;
};

/// What a file describes.
enum class CatalogueKind {
  hardware,  ///< hardware/*.toml: a GPU and the machine around it
  topology,  ///< hardware/topologies/*.toml: the links inside a node
  fabric,    ///< hardware/fabrics/*.toml: the links between nodes
};

/// Sorted by name; lives as long as the program.
std::span<const CatalogueEntry> catalogue(CatalogueKind kind);

}  // namespace foregather::sim
