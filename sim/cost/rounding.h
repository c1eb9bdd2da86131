// The one place where model time becomes integer time.
#pragma once

#include <cstdint>

#include "core/base/units.h"
#include "sim/cost/cost_table.h"

namespace foregather::sim {

/// Longest time that a price can hold: about 29 years. Beyond it, prices saturate.
inline constexpr double kLongestNs = 9.0e17;

/// Nearest integer of a time in ns, halves up.
inline Ns round_ns(double ns) {
  if (!(ns > 0)) return 0;
  return static_cast<Ns>((ns < kLongestNs ? ns : kLongestNs) + 0.5);
}

/// A share of 0 to 1 in units of 1 / kWhole; more than 1 is the whole.
inline std::uint16_t round_share(double share) {
  if (!(share > 0)) return 0;
  return static_cast<std::uint16_t>((share < 1 ? share : 1.0) * kWhole + 0.5);
}

}  // namespace foregather::sim
