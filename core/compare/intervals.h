// Sets of half-open time intervals.
#pragma once

#include <algorithm>
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

/// Appends one that does not meet the last one.
void append_apart(std::vector<Interval>& intervals, const Interval& next);
/// Appends what is to be united. Where it meets the last one, that grows: many ops of a busy
/// stream are few intervals.
inline void append(std::vector<Interval>& intervals, const Interval& next) {
  if (next.begin >= next.end) return;
  if (intervals.empty()) return append_apart(intervals, next);
  Interval& last = intervals.back();
  if (next.begin > last.end || last.begin > next.end) return append_apart(intervals, next);
  last = {std::min(last.begin, next.begin), std::max(last.end, next.end)};
}

/// The union. n log n.
IntervalSet united(std::vector<Interval> intervals);
/// What lies in both. Linear.
IntervalSet intersection(const IntervalSet& a, const IntervalSet& b);
Ns length(const IntervalSet& set);
/// How much of `within` the set covers. log n and what it meets.
Ns covered(const IntervalSet& set, const Interval& within);

}  // namespace foregather::compare
