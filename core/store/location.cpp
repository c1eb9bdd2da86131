#include "core/store/location.h"

#include <filesystem>

namespace foregather::store {

Location parse_location(const std::string& text) {
  std::error_code ignored;
  if (std::filesystem::exists(text, ignored)) return {text, {}};
  // Names of runs may have colons, and so may files.
  for (auto colon = text.find(':'); colon != std::string::npos; colon = text.find(':', colon + 1))
    if (std::filesystem::is_regular_file(text.substr(0, colon), ignored))
      return {text.substr(0, colon), text.substr(colon + 1)};
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

}  // namespace foregather::store
