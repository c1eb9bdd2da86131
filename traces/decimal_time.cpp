#include "traces/decimal_time.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>

namespace foregather::traces {
namespace {

/// "1.5e3" as "1500.": a double has not the digits of a time since 1970. Absent: it is too long for
/// a time, or something else.
std::optional<std::string> without_exponent(std::string_view text) {
  constexpr int kMostDigits = 40;
  const auto e = std::min(text.find_first_of("eE"), text.size());
  std::string_view exponent = text.substr(std::min(e + 1, text.size()));
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  int places = 0;
  const auto [stop, error] =
      std::from_chars(exponent.data(), exponent.data() + exponent.size(), places);
  if (error != std::errc() || stop != exponent.data() + exponent.size() ||
      std::abs(places) > kMostDigits)
    return std::nullopt;
  std::string digits(text.substr(0, e));
  const std::string sign = digits.starts_with('-') ? "-" : "";
  digits.erase(0, sign.size());
  auto point = digits.find('.');
  if (point == std::string::npos)
    point = digits.size();
  else
    digits.erase(point, 1);
  const auto is_digit = [](char c) { return '0' <= c && c <= '9'; };
  if (point == 0 || digits.size() > kMostDigits || !std::ranges::all_of(digits, is_digit))
    return std::nullopt;
  digits.insert(0, kMostDigits, '0');
  digits.append(kMostDigits, '0');
  digits.insert(point + static_cast<std::size_t>(kMostDigits + places), 1, '.');
  return sign + digits.substr(std::min(digits.find_first_not_of('0'), digits.find('.') - 1));
}

// Exponents, infinities and what else a floating point number may be.
DecimalTime parse_float(std::string_view text) {
  if (const auto plain = without_exponent(text)) return parse_microseconds(*plain);
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range) return {0, BadTime::out_of_range};
  if (error != std::errc() || stop != end || value != value) return {0, BadTime::not_a_number};
  const double scaled = value * static_cast<double>(kMicrosecond);
  if (!(scaled > -static_cast<double>(kLatestTime) && scaled < static_cast<double>(kLatestTime)))
    return {0, BadTime::out_of_range};
  return {std::llround(scaled), {}};
}

}  // namespace

DecimalTime parse_microseconds(std::string_view text) {
  const std::string_view whole = text;
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  Ns value = 0;
  std::size_t i = 0;
  const auto digit = [&](std::size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '9' ? text[at] - '0' : -1;
  };
  for (; digit(i) >= 0; ++i) {
    if (value > kLatestTime / kMicrosecond / 10) {
      if (whole.find_first_of("eE") != std::string_view::npos) return parse_float(whole);
      return {0, BadTime::out_of_range};
    }
    value = 10 * value + digit(i);
  }
  if (i == 0) return parse_float(whole);
  value *= kMicrosecond;
  if (i < text.size() && text[i] == '.') {
    const std::size_t point = i;
    Ns unit = kMicrosecond;
    for (++i; digit(i) >= 0; ++i) value += (unit /= 10) * digit(i);
    constexpr std::size_t kDecimals = 3;
    if (i > point + kDecimals + 1 && digit(point + kDecimals + 1) >= 5) ++value;
  }
  if (i != text.size()) return parse_float(whole);
  return {is_negative ? -value : value, {}};
}

}  // namespace foregather::traces
