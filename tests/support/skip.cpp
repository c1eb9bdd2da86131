#include "tests/support/skip.h"

#include <cstdlib>
#include <iostream>
#include <system_error>

#include "tests/support/places.h"

namespace foregather::test {

namespace {
int skips = 0;
}

void report_skip(std::string_view reason) {
  ++skips;
  std::cerr << "SKIPPED: " << reason << '\n';
}

int skipped_cases() { return skips; }

std::optional<std::filesystem::path> shared_data(std::string_view relative) {
  const char* chosen = std::getenv("FOREGATHER_DATA");
  const std::filesystem::path root = chosen != nullptr ? chosen : data_dir();
  if (root.empty()) return std::nullopt;
  std::filesystem::path found = root / relative;
  std::error_code ignored;
  if (!std::filesystem::exists(found, ignored)) return std::nullopt;
  return found;
}

}  // namespace foregather::test
