// How much slower the slowest GPU of a job is.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace foregather::sim {

/// The expected maximum of that many independent normal variables, in standard deviations: exact to
/// three digits at powers of two, linear in between, that of 65,536 beyond.
constexpr double slowest_of(std::uint32_t count) {
  constexpr std::array kAtPowersOfTwo{0.0,   0.564, 1.029, 1.424, 1.766, 2.07,  2.344, 2.595, 2.827,
                                      3.044, 3.248, 3.442, 3.626, 3.802, 3.971, 4.134, 4.291};
  for (std::size_t i = 0; i + 1 < kAtPowersOfTwo.size(); ++i) {
    const std::uint32_t low = 1U << i;
    if (count >= 2 * low) continue;
    const double part = static_cast<double>(std::max(count, low) - low) / low;
    return kAtPowersOfTwo[i] + part * (kAtPowersOfTwo[i + 1] - kAtPowersOfTwo[i]);
  }
  return kAtPowersOfTwo.back();
}

}  // namespace foregather::sim
