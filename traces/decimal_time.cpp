#include "traces/decimal_time.h"

#include <charconv>
#include <cmath>

namespace foregather::traces {
namespace {

// Exponents, infinities and what else a floating point number may be.
DecimalTime parse_float(std::string_view text) {
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
    if (value > kLatestTime / kMicrosecond / 10) return {0, BadTime::out_of_range};
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
