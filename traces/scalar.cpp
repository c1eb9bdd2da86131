#include "traces/scalar.h"

#include <charconv>
#include <cmath>

namespace foregather::traces {
namespace {

template <class Number>
std::optional<std::uint64_t> parse_whole(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

}  // namespace

std::optional<std::uint64_t> whole_number(double value) {
  constexpr double kLeast = -0x1p63, kBeyond = 0x1p64;
  if (!(value >= kLeast && value < kBeyond) || std::trunc(value) != value) return std::nullopt;
  return value < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value))
                   : static_cast<std::uint64_t>(value);
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  return text.starts_with('-') ? parse_whole<std::int64_t>(text) : parse_whole<std::uint64_t>(text);
}

}  // namespace foregather::traces
