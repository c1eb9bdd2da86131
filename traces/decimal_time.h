// Times as traces print them: decimal microseconds.
#pragma once

#include <optional>
#include <string_view>

#include "core/base/units.h"

namespace foregather::traces {

/// Why a number is no time.
enum class BadTime : unsigned char { not_a_number, out_of_range };

struct DecimalTime {
  Ns time = 0;
  std::optional<BadTime> bad;
};

/// "1706850122848248.5", "-3", "2.5e3": microseconds to nanoseconds, exactly where there are at
/// most three decimals, else rounded to the nearest. Out of range: beyond ±kLatestTime.
DecimalTime parse_microseconds(std::string_view text);

}  // namespace foregather::traces
