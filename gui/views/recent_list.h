// The files that were opened last, in the settings of the user.
#pragma once

#include <string>
#include <vector>

namespace foregather::gui {

std::vector<std::string> recent_files();
/// Puts those that are there (FILE or FILE:RUN) in front, with whole paths: the next start may be
/// elsewhere.
void remember_files(const std::vector<std::string>& files);

}  // namespace foregather::gui
