// Raw recordings and recorded programs, as tests look at them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/raw_file.h"
#include "tests/support/scratch.h"

namespace foregather::test {

/// Rows of a query; NULL is "-".
std::vector<std::vector<std::string>> query(const std::string& path, const std::string& sql);
/// The one value of a query.
std::string value(const std::string& path, const std::string& sql);

/// A raw recording in a folder of its own, time 0 at 1,000 s.
struct RawScratch {
  static constexpr std::int64_t kEpoch = 1'000'000'000'000;
  Scratch scratch;
  std::string path = scratch.path("raw.sqlite"), error;
  std::unique_ptr<profiler::RawFile> file = profiler::RawFile::create(path, kEpoch, error);
};

/// Starts a program with more variables; its pid.
pid_t start(const std::vector<std::string>& command,
            const std::map<std::string, std::string>& variables, const std::string& errors = "");
/// Its exit code, or 128 and the signal.
int wait_for(pid_t pid);

/// The raw recordings in a folder, by name.
std::vector<std::string> raw_files(const std::string& folder);

}  // namespace foregather::test
