// Sets of half-open time intervals.
#pragma once

#include <vector>

#include "core/base/units.h"

namespace foregather::compare {

struct Interval {
  Ns begin = 0;
  Ns end = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// Disjoint intervals in ascending order; touching ones are joined, empty ones gone.
using IntervalSet = std::vector<Interval>;

/// The union. n log n.
IntervalSet united(std::vector<Interval> intervals);
/// What lies in both. Linear.
IntervalSet intersection(const IntervalSet& a, const IntervalSet& b);
Ns length(const IntervalSet& set);

}  // namespace foregather::compare
