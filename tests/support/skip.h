#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace foregather::test {

/// Prints "SKIPPED: reason" on standard error and counts it. Call through FOREGATHER_SKIP.
void report_skip(std::string_view reason);

/// How often report_skip was called in this process.
int skipped_cases();

/// The file or folder `relative` of the shared test data, or nothing where it is absent. The data
/// live in $FOREGATHER_DATA, else where CMake's FOREGATHER_DATA said.
std::optional<std::filesystem::path> shared_data(std::string_view relative);

}  // namespace foregather::test

/// Leaves the current TEST_CASE and marks it as skipped: Catch2 2 has no SKIP of its own. The
/// process then exits with 77 unless another case failed.
#define FOREGATHER_SKIP(reason)              \
  do {                                       \
    ::foregather::test::report_skip(reason); \
    return;                                  \
  } while (false)
