#include "runtime/cuda/libraries.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace foregather::runtime::cuda {
namespace {

namespace fs = std::filesystem;

// ROOT/lib/python3.X/site-packages (or dist-packages)/nvidia of the environments of Python at hand.
std::vector<fs::path> package_folders() {
  std::vector<fs::path> roots;
  if (const char* const environment = std::getenv("VIRTUAL_ENV")) roots.emplace_back(environment);
  const char* const path = std::getenv("PATH");
  for (std::string_view rest = path == nullptr ? "" : path; !rest.empty();) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
    std::error_code ignored;
    if (fs::exists(fs::path(folder) / "python3", ignored))
      roots.push_back(fs::path(folder).parent_path());
  }
  std::vector<fs::path> found;
  for (const fs::path& root : roots) {
    std::error_code ignored;
    std::vector<fs::path> versions;
    for (const auto& entry : fs::directory_iterator(root / "lib", ignored))
      if (entry.path().filename().string().starts_with("python3")) versions.push_back(entry.path());
    std::ranges::sort(versions);
    for (const fs::path& version : versions)
      for (const char* const packages : {"site-packages", "dist-packages"})
        if (fs::exists(version / packages / "nvidia", ignored))
          found.push_back(version / packages / "nvidia");
  }
  return found;
}

Library open_one(const std::string& path) {
  return {::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL), path};
}

}  // namespace

void* Library::symbol(const char* name) const {
  return handle == nullptr ? nullptr : ::dlsym(handle, name);
}

Library open_library(const std::vector<std::string>& names,
                     const std::vector<std::string>& packages) {
  for (const std::string& name : names)
    if (Library library = open_one(name); library.handle != nullptr) return library;
  std::vector<fs::path> folders;
  if (const char* const home = std::getenv("CUDA_HOME"))
    folders.push_back(fs::path(home) / "lib64");
  folders.emplace_back("/usr/local/cuda/lib64");
  for (const fs::path& nvidia : package_folders())
    for (const std::string& package : packages) folders.push_back(nvidia / package / "lib");
  for (const fs::path& folder : folders)
    for (const std::string& name : names) {
      std::error_code ignored;
      if (!fs::exists(folder / name, ignored)) continue;
      if (Library library = open_one(folder / name); library.handle != nullptr) return library;
    }
  return {};
}

}  // namespace foregather::runtime::cuda
