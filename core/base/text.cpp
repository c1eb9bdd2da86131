#include "core/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace foregather {
namespace {

// With one decimal these would show the next unit's 1.
constexpr double kRoundsTo1000 = 999.95;
constexpr double kRoundsTo1024 = 1023.95;

// Counts code points, so that "µs" lines up.
std::size_t width_of(std::string_view cell) {
  return static_cast<std::size_t>(
      std::count_if(cell.begin(), cell.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const auto begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string format_time(Ns time) {
  double value = static_cast<double>(time);
  if (std::abs(value) < 1e3) return fmt::format("{} ns", time);
  for (const char* unit : {"µs", "ms"}) {
    value /= 1e3;
    if (std::abs(value) < 9.995) return fmt::format("{:.2f} {}", value, unit);
    if (std::abs(value) < kRoundsTo1000) return fmt::format("{:.1f} {}", value, unit);
  }
  return fmt::format("{:.3f} s", value / 1e3);
}

std::string format_bytes(Bytes size) {
  double value = static_cast<double>(size);
  if (std::abs(value) < 1024.0) return fmt::format("{} B", size);
  for (const char* unit : {"KiB", "MiB"}) {
    value /= 1024.0;
    if (std::abs(value) < kRoundsTo1024) return fmt::format("{:.1f} {}", value, unit);
  }
  return fmt::format("{:.2f} GiB", value / 1024.0);
}

std::string format_count(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::size_t first = count < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

void TextTable::row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string TextTable::text(std::size_t indent) const {
  std::vector<std::size_t> widths;
  for (const auto& cells : rows_) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (std::size_t c = 0; c < cells.size(); ++c)
      widths[c] = std::max(widths[c], width_of(cells[c]));
  }
  std::string out;
  for (const auto& cells : rows_) {
    std::string line(indent, ' ');
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string padding(widths[c] - width_of(cells[c]), ' ');
      if (c != 0) line += "  ";
      line += c == 0 ? cells[c] + padding : padding + cells[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

}  // namespace foregather
