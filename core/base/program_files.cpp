#include "core/base/program_files.h"

#include <filesystem>

namespace foregather {

namespace fs = std::filesystem;

namespace {

fs::path program_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

}  // namespace

std::string own_library(std::string_view file, std::string_view build_folder) {
  std::error_code ignored;
  const fs::path folder = program_folder();
  for (const std::string_view place :
       {std::string_view("."), std::string_view("../lib/foregather"), build_folder}) {
    const fs::path path = (folder / place / file).lexically_normal();
    if (fs::is_regular_file(path, ignored)) return path.string();
  }
  return {};
}

std::string installed_samples() {
  std::error_code ignored;
  const fs::path path = (program_folder() / "../share/foregather/samples").lexically_normal();
  return fs::is_directory(path, ignored) ? path.string() : std::string();
}

}  // namespace foregather
