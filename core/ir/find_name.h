// Names of enumerators, searched.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace foregather {

/// The enumerator whose row of `names` is `text`.
template <class Enum, std::size_t N>
std::optional<Enum> find_name(const std::array<std::string_view, N>& names, std::string_view text) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

}  // namespace foregather
