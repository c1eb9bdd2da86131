// Integer units. Time is nanoseconds, size is bytes, both signed 64 bits, everywhere.
#pragma once

#include <cstdint>

namespace foregather {

using Ns = std::int64_t;
using Bytes = std::int64_t;

inline constexpr Bytes KiB = 1024;
inline constexpr Bytes MiB = 1024 * KiB;
inline constexpr Bytes GiB = 1024 * MiB;

inline constexpr Ns kMicrosecond = 1000;
inline constexpr Ns kMillisecond = 1000 * kMicrosecond;
inline constexpr Ns kSecond = 1000 * kMillisecond;

/// The latest time that recordings may have, and their earliest below 0: 73 years.
inline constexpr Ns kLatestTime = Ns{1} << 61;

}  // namespace foregather
