// A file with a text, for tests of readers.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace foregather::test {

/// A file that goes with the scope.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    static int next = 0;
    path_ = (std::filesystem::temp_directory_path() /
             ("foregather_config_" + std::to_string(::getpid()) + "_" + std::to_string(next++)))
                .string();
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace foregather::test
