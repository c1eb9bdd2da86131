// The bytes of an input as a file with a name: SQLite follows /proc/self/fd to what a memfd was
// called, and opens nothing.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace foregather {

/// Of this process alone, in memory where there is /dev/shm; gone with the object, as is a journal
/// that SQLite left beside it.
class ScratchFile {
 public:
  ScratchFile(const std::uint8_t* data, std::size_t size) {
    std::string folder = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    folder += "/foregather_fuzz_XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) std::abort();
    folder_ = folder;
    path_ = folder + "/input.db";
    const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 || ::write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
    ::close(file);
  }
  ~ScratchFile() {
    for (const char* end : {"", "-journal", "-wal", "-shm"}) ::unlink((path_ + end).c_str());
    ::rmdir(folder_.c_str());
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string folder_;
  std::string path_;
};

/// Stops where `read`, of a path, cannot even open a file of no bytes: nothing would be tested. Of
/// an input's own words nothing is concluded.
template <class Read>
void must_open_files(const Read& read) {
  const ScratchFile file(nullptr, 0);
  const auto answer = read(file.path());
  if (answer) return;
  if (answer.error().text().find("unable to open database file") != std::string::npos) std::abort();
}

}  // namespace foregather
