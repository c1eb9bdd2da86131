// Single values of files whose writers disagree about types.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace foregather::traces {

struct Scalar {
  /// A whole number, however it is written; a negative one as two's complement, 0 and 1 for false
  /// and true.
  std::optional<std::uint64_t> number;
  std::optional<std::string_view> text;  ///< of a string
  bool is_absent = false;                ///< there is no value, or null

  /// Sets a number that is there. False: something else is.
  template <class Number>
  bool set(Number& to) const {
    if (number) to = *number;
    return number || is_absent;
  }
};

/// The whole number, of 64 bits with or without a sign, that a float is or a text is in decimal.
std::optional<std::uint64_t> whole_number(double value);
std::optional<std::uint64_t> whole_number(std::string_view text);

}  // namespace foregather::traces
