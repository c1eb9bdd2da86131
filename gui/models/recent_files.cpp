#include "gui/models/recent_files.h"

namespace foregather::gui {

std::vector<std::string> with_recent(std::vector<std::string> list,
                                     const std::vector<std::string>& opened) {
  for (const std::string& file : opened) {
    std::erase(list, file);
    list.insert(list.begin(), file);
  }
  if (list.size() > kRecentFiles) list.resize(kRecentFiles);
  return list;
}

}  // namespace foregather::gui
