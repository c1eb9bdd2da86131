#include "core/store/location.h"

#include <filesystem>

namespace foregather::store {

Location parse_location(const std::string& text) {
  std::error_code ignored;
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || std::filesystem::exists(text, ignored)) return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

}  // namespace foregather::store
