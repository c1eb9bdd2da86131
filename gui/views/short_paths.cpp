#include "gui/views/short_paths.h"

#include <algorithm>
#include <string_view>

namespace foregather::gui {
namespace {

// Its last `names` folders and file.
std::string_view last_of(std::string_view path, int names) {
  std::size_t slash = path.size();
  for (; names > 0 && slash != path.npos && slash > 0; --names) slash = path.rfind('/', slash - 1);
  return names > 0 || slash == path.npos ? path : path.substr(slash + 1);
}

}  // namespace

std::vector<std::string> short_paths(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    int parts = 1;
    const auto is_alike = [&](const std::string& other) {
      return last_of(other, parts) == last_of(path, parts);
    };
    while (last_of(path, parts) != path && std::count_if(paths.begin(), paths.end(), is_alike) > 1)
      ++parts;
    names.emplace_back(last_of(path, parts));
  }
  return names;
}

}  // namespace foregather::gui
