// How many rounds a grid of blocks needs.
#pragma once

#include <cstdint>

namespace foregather::sim {

constexpr double ceil_div(std::int64_t a, std::int64_t b) {
  return static_cast<double>((a + b - 1) / b);
}

/// Rounds of `blocks` over `sms`: whole ones, until there are so many that it cannot matter.
constexpr double waves_of(double blocks, double sms) {
  constexpr double kMany = 1e12;
  if (blocks > kMany) return blocks / sms;
  return ceil_div(static_cast<std::int64_t>(blocks), static_cast<std::int64_t>(sms));
}

}  // namespace foregather::sim
