// Which files were opened last.
#pragma once

#include <string>
#include <vector>

namespace foregather::gui {

inline constexpr std::size_t kRecentFiles = 10;

/// The list with `opened` in front, the last of them first, each once; the oldest fall out.
std::vector<std::string> with_recent(std::vector<std::string> list,
                                     const std::vector<std::string>& opened);

}  // namespace foregather::gui
