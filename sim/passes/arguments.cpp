#include "sim/passes/arguments.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "sim/cost/rounding.h"

namespace foregather::sim {
namespace {

// Wildcards with one point to come back to: linear in practice.
bool matches_glob(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace

std::optional<NamedValue> named_value(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  return NamedValue{text.substr(0, colon), text.substr(colon + 1)};
}

std::optional<Ns> parse_duration(std::string_view text) {
  constexpr double kMost = 3600e9;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const double scale = unit == "ns"   ? 1
                       : unit == "us" ? 1e3
                       : unit == "ms" ? 1e6
                       : unit == "s"  ? 1e9
                                      : 0;
  const double time = number * scale;
  if (!(time >= 1 && time <= kMost)) return std::nullopt;
  return round_ns(time);
}

std::optional<Bytes> parse_bytes(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 10> kUnits{{{"", 1},
                                                                        {"B", 1},
                                                                        {"KiB", 0x1p10},
                                                                        {"MiB", 0x1p20},
                                                                        {"GiB", 0x1p30},
                                                                        {"TiB", 0x1p40},
                                                                        {"KB", 1e3},
                                                                        {"MB", 1e6},
                                                                        {"GB", 1e9},
                                                                        {"TB", 1e12}}};
  constexpr double kMost = 0x1p50;
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const auto& [name, factor] : kUnits)
    if (const double bytes = number * factor; unit == name && bytes >= 1 && bytes <= kMost) {
      const bool is_whole = factor > 1 || bytes == std::floor(bytes);
      return is_whole ? std::optional(static_cast<Bytes>(bytes)) : std::nullopt;
    }
  return std::nullopt;
}

std::optional<std::uint32_t> parse_count(std::string_view text, std::uint32_t least,
                                         std::uint32_t most) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (number < least || number > most) return std::nullopt;
  return number;
}

bool matches_scope(std::string_view pattern, std::string_view scope) {
  if (pattern.find_first_of("*?") != std::string_view::npos) return matches_glob(pattern, scope);
  return scope.starts_with(pattern) &&
         (scope.size() == pattern.size() || scope[pattern.size()] == '.');
}

}  // namespace foregather::sim
