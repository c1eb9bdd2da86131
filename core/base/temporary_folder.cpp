#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/file.h"
#include "core/base/temporary_names.h"

namespace foregather {

Result<TemporaryFolder> TemporaryFolder::create(std::string_view name) {
  std::error_code problem;
  const std::filesystem::path place = std::filesystem::temp_directory_path(problem);
  if (problem) return fail_work("TMPDIR", "names no folder: {}", problem.message());
  std::string path = (place / fmt::format("{}-XXXXXX", name)).string();
  const SignalsWait until_noted;
  if (::mkdtemp(path.data()) == nullptr)
    return fail_work(place.string(), "a temporary folder cannot be made: {}", std::strerror(errno));
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::TemporaryFolder(std::string path)
    : path_(std::move(path)), slot_(note_temporary_folder(path_)) {}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), slot_(std::exchange(other.slot_, -1)) {}

TemporaryFolder::~TemporaryFolder() {
  if (!path_.empty()) remove_folder_of_files(path_.c_str());
  forget_temporary_name(slot_);
}

}  // namespace foregather
