#include "core/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/text.h"

namespace foregather {
namespace {

// Names of temporaries, where a signal handler may read them: fixed places, written before `used`.
struct TemporaryName {
  std::atomic<bool> taken{false};
  std::atomic<bool> used{false};
  std::array<char, PATH_MAX> path{};
  std::array<char, PATH_MAX> journal{};  // SQLite's
};
std::array<TemporaryName, 16> temporary_names;

int note_temporary(const std::string& path) {
  constexpr std::string_view kJournal = "-journal";
  if (path.size() + kJournal.size() >= PATH_MAX) return -1;
  for (std::size_t slot = 0; slot < temporary_names.size(); ++slot) {
    TemporaryName& name = temporary_names[slot];
    if (name.taken.exchange(true)) continue;
    std::memcpy(name.path.data(), path.c_str(), path.size() + 1);
    std::memcpy(name.journal.data(), path.data(), path.size());
    std::memcpy(name.journal.data() + path.size(), kJournal.data(), kJournal.size() + 1);
    name.used = true;
    return static_cast<int>(slot);
  }
  return -1;
}

void remove_temporaries(int signal) {
  for (const TemporaryName& name : temporary_names)
    if (name.used) {
      ::unlink(name.path.data());
      ::unlink(name.journal.data());
    }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void remove_pending_files_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old {};
    // Whoever ignores the signal (nohup) goes on ignoring it.
    if (::sigaction(signal, nullptr, &old) != 0 || old.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = remove_temporaries;
    ::sigaction(signal, &action, nullptr);
  }
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

Result<PendingFile> PendingFile::create(const std::string& path) {
  struct stat status {};
  if (path.empty()) return fail("an empty file name, expected a file to write");
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode))
    return fail_at(path, "is a directory, expected a file to write");
  PendingFile file;
  file.path_ = path;
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    file.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (file.descriptor_ < 0) return fail_at(path, "cannot be written: {}", std::strerror(errno));
    ::fcntl(file.descriptor_, F_SETFL, 0);
    return file;
  }
  file.target_ = path;
  if (char* const real = ::realpath(path.c_str(), nullptr); real != nullptr) {
    file.target_ = real;
    std::free(real);
  }
  std::string name = file.target_ + ".tmp-XXXXXX";
  file.descriptor_ = ::mkstemp(name.data());
  if (file.descriptor_ < 0) return fail_at(path, "cannot be written: {}", std::strerror(errno));
  file.temporary_ = name;
  file.slot_ = note_temporary(name);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(file.descriptor_, 0666 & ~mask);
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
  temporary_names[static_cast<std::size_t>(slot_)].used = false;
  temporary_names[static_cast<std::size_t>(slot_)].taken = false;
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
  const bool flushed = ::fsync(descriptor_) == 0 || errno == EINVAL || errno == EROFS;
  const int reason = errno;
  const bool closed = ::close(descriptor_) == 0;
  descriptor_ = -1;
  if (!flushed || !closed)
    return fail_work(path_, "cannot be written: {}", std::strerror(flushed ? errno : reason));
  if (temporary_.empty()) return {};
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0)
    return fail_work(path_, "cannot be written: {}", std::strerror(errno));
  forget_temporary();
  return {};
}

}  // namespace foregather
