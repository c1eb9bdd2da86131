#include "core/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/base/temporary_names.h"
#include "core/base/text.h"

namespace foregather {
namespace {

bool is_link(const std::string& path, struct stat& status) {
  return ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
}

}  // namespace

bool is_planted(const std::string& path) {
  struct stat link {
  }, folder{};
  if (!is_link(path, link)) return false;
  const std::string parent = std::filesystem::path(path).parent_path().string();
  if (::stat(parent.empty() ? "." : parent.c_str(), &folder) != 0) return true;
  return (folder.st_mode & S_IWOTH) != 0 && link.st_uid != ::geteuid() &&
         link.st_uid != folder.st_uid;
}

Result<std::string> read_file(const std::string& path, Bytes limit) {
  // Non-blocking, so that a pipe without a writer does not hang the open.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return fail_at(path, "cannot be read: {}", std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(descriptor, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    return fail_at(path, "is {}, expected a regular file",
                   known && S_ISDIR(status.st_mode) ? "a directory" : "not a regular file");
  }
  if (status.st_size > limit) {
    ::close(descriptor);
    return fail_at(path, "is {} long, expected at most {}", format_bytes(status.st_size),
                   format_bytes(limit));
  }
  std::string content(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t got = 0;
  while (got < content.size()) {
    const ssize_t n = ::read(descriptor, content.data() + got, content.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int reason = errno;
      ::close(descriptor);
      return fail_at(path, "cannot be read: {}", std::strerror(reason));
    }
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  ::close(descriptor);
  content.resize(got);
  return content;
}

Result<std::string> written_file(const std::string& path) {
  constexpr int kMostLinks = 40;  // as Linux
  std::error_code error;
  std::filesystem::path at = path;
  for (int links = 0; std::filesystem::is_symlink(at, error); ++links) {
    if (links == kMostLinks) return fail_at(path, "cannot be written: {}", std::strerror(ELOOP));
    if (is_planted(at.string()))
      return fail_at(path, "leads to another user's link in a directory that all may write to");
    const auto next = std::filesystem::read_symlink(at, error);
    if (error) return fail_at(path, "cannot be written: {}", error.message());
    at = at.parent_path() / next;  // which is `next` where that is absolute
  }
  std::string target = at.string();
  if (char* const real = ::realpath(target.c_str(), nullptr); real != nullptr) {
    target = real;
    std::free(real);
  }
  return target;
}

Result<PendingFile> PendingFile::create(const std::string& path) {
  struct stat status {};
  if (path.empty()) return fail("an empty file name, expected a file to write");
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode))
    return fail_at(path, "is a directory, expected a file to write");
  if (is_planted(path))
    return fail_at(path,
                   "is another user's link in a directory that all may write to: expected a file, "
                   "or another directory");
  PendingFile file;
  file.path_ = path;
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    file.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (file.descriptor_ < 0) return fail_at(path, "cannot be written: {}", std::strerror(errno));
    ::fcntl(file.descriptor_, F_SETFL, 0);
    return file;
  }
  const auto target = written_file(path);
  if (!target) return tl::unexpected(target.error());
  file.target_ = *target;
  const SignalsWait until_noted;
  std::string name = file.target_ + ".tmp-XXXXXX";
  file.descriptor_ = ::mkstemp(name.data());
  if (file.descriptor_ < 0) return fail_at(path, "cannot be written: {}", std::strerror(errno));
  file.temporary_ = name;
  file.slot_ = note_temporary_file(name);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(file.descriptor_, 0666 & ~mask);
  return file;
}

Result<PendingFile> PendingFile::standard_output() {
  PendingFile file;
  file.path_ = "standard output";
  file.descriptor_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  if (file.descriptor_ < 0)
    return fail_work(file.path_, "cannot be written: {}", std::strerror(errno));
  return file;
}

PendingFile::PendingFile(PendingFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(other.descriptor_),
      slot_(other.slot_) {
  other.descriptor_ = -1;
  other.slot_ = -1;
  other.temporary_.clear();
}

PendingFile::~PendingFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  forget_temporary();
}

void PendingFile::forget_temporary() {
  temporary_.clear();
  if (slot_ < 0) return;
  forget_temporary_name(slot_);
  slot_ = -1;
}

Status PendingFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(descriptor_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail_work(path_, "cannot be written: {}", std::strerror(errno));
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Status PendingFile::commit() {
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS)
    return fail_work(path_, "cannot be written: {}", std::strerror(errno));
  return close_and_rename();
}

Status PendingFile::commit_unflushed() { return close_and_rename(); }

Status PendingFile::close_and_rename() {
  const bool closed = ::close(descriptor_) == 0;
  descriptor_ = -1;
  if (!closed) return fail_work(path_, "cannot be written: {}", std::strerror(errno));
  if (temporary_.empty()) return {};
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0)
    return fail_work(path_, "cannot be written: {}", std::strerror(errno));
  forget_temporary();
  return {};
}

}  // namespace foregather
