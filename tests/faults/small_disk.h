// A disk that is as full as a test wants it.
#pragma once

#include <sys/mount.h>

#include <filesystem>
#include <string>

namespace foregather::test {

/// A file system in memory, mounted on the folder `path`, which is made; not there where mounting
/// is not permitted. `size` is an option of mount: "size=8k".
class SmallDisk {
 public:
  SmallDisk(std::string path, const char* size) : path_(std::move(path)) {
    std::filesystem::create_directory(path_);
    is_there_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, size) == 0;
  }
  ~SmallDisk() {
    if (is_there_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool is_there() const { return is_there_; }
  bool resize(const char* size) {
    return ::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT, size) == 0;
  }
  bool make_read_only() {
    return ::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }

 private:
  std::string path_;
  bool is_there_ = false;
};

}  // namespace foregather::test
