// Names of open files.
#pragma once

#include <string>
#include <vector>

namespace foregather::gui {

/// As much of the end of each path, from a folder on, as tells it from the others; equal paths are
/// whole. Quadratic: of files that somebody has open.
std::vector<std::string> short_paths(const std::vector<std::string>& paths);

}  // namespace foregather::gui
