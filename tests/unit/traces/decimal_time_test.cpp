// Times are exact to the nanosecond, whatever their size.
#include "traces/decimal_time.h"

#include <catch2/catch.hpp>
#include <rapidcheck/catch.h>

#include <fmt/format.h>

using namespace foregather;
using traces::BadTime;
using traces::parse_microseconds;

namespace {

Ns time_of(std::string_view text) {
  const traces::DecimalTime parsed = parse_microseconds(text);
  INFO(text);
  CHECK_FALSE(parsed.bad);
  return parsed.time;
}

std::optional<BadTime> fault_of(std::string_view text) { return parse_microseconds(text).bad; }

}  // namespace

TEST_CASE("decimal time: microseconds since the epoch keep their three decimals") {
  CHECK(time_of("1706850122848248.517") == 1706850122848248517);
  CHECK(time_of("1700000000000000.001") == 1700000000000000001);
  CHECK(time_of("1706850122848248.5") == 1706850122848248500);
  CHECK(time_of("1706850122848248") == 1706850122848248000);
}

TEST_CASE("decimal time: further decimals round to the nearest nanosecond") {
  CHECK(time_of("844662.6224613283") == 844662622);
  CHECK(time_of("0.0004") == 0);
  CHECK(time_of("0.0005") == 1);
  CHECK(time_of("0.9999") == 1000);
  CHECK(time_of("-0.0006") == -1);
}

TEST_CASE("decimal time: signs, exponents and short forms") {
  CHECK(time_of("-3") == -3000);
  CHECK(time_of("-0.25") == -250);
  CHECK(time_of("2.5e3") == 2500000);
  CHECK(time_of("1E-3") == 1);
  CHECK(time_of("1.706850123441707e15") == 1706850123441707000);  // no double has these digits
  CHECK(time_of("-1706850123441707517E-3") == -1706850123441707517);
  CHECK(time_of("0e5") == 0);
  CHECK(time_of("25e-30") == 0);
  CHECK(time_of("0") == 0);
  CHECK(time_of("-0") == 0);
  CHECK(time_of(".5") == 500);
  CHECK(time_of("5.") == 5000);
}

TEST_CASE("decimal time: what is no number") {
  for (const char* text : {"", "-", "abc", "1.2.3", "1,5", "12 ", " 12", "1e", "NaN", "nan", "-nan",
                           "0x10", "null", "true", "[1]"}) {
    INFO(text);
    CHECK(fault_of(text) == BadTime::not_a_number);
  }
}

TEST_CASE("decimal time: what is beyond 73 years is out of range") {
  CHECK(fault_of("9223372036854775808") == BadTime::out_of_range);   // 2^63
  CHECK(fault_of("18446744073709551615") == BadTime::out_of_range);  // 2^64 - 1
  CHECK(fault_of("-9223372036854775808") == BadTime::out_of_range);
  CHECK(fault_of("99999999999999999999999999999") == BadTime::out_of_range);
  CHECK(fault_of("1e300") == BadTime::out_of_range);
  CHECK(fault_of("1e999999") == BadTime::out_of_range);
  CHECK(fault_of("inf") == BadTime::out_of_range);
  CHECK(time_of("2305843009213693") == 2305843009213693000);  // just below 2^61 ns
}

TEST_CASE("decimal time: printed nanoseconds come back") {
  rc::prop("any time", [] {
    constexpr Ns kLargest = Ns{1} << 60;
    const Ns time = *rc::gen::inRange<Ns>(-kLargest, kLargest);
    const Ns size = time < 0 ? -time : time;
    const std::string text =
        fmt::format("{}{}.{:03}", time < 0 ? "-" : "", size / 1000, size % 1000);
    const traces::DecimalTime parsed = parse_microseconds(text);
    RC_ASSERT(!parsed.bad);
    RC_ASSERT(parsed.time == time);
  });
}
