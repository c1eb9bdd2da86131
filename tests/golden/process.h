#pragma once

#include <string>
#include <vector>

namespace foregather::test {

struct ProcessResult {
  int exit = -1;
  std::string out, err;
};

/// Runs a program and waits. `directory` is its working directory; a non-empty `stdout_file` takes
/// its standard output instead of `out`.
ProcessResult run_process(const std::vector<std::string>& arguments, const std::string& directory,
                          const std::string& stdout_file = "");

/// A new empty directory, removed with its content at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace foregather::test
