#include "core/compare/intervals.h"

#include <algorithm>

namespace foregather::compare {

void append_apart(std::vector<Interval>& intervals, const Interval& next) {
  intervals.push_back(next);
}

IntervalSet united(std::vector<Interval> intervals) {
  std::erase_if(intervals, [](const Interval& i) { return i.end <= i.begin; });
  const auto before = [](const Interval& a, const Interval& b) {
    return a.begin < b.begin || (a.begin == b.begin && a.end < b.end);
  };
  if (!std::is_sorted(intervals.begin(), intervals.end(), before))
    std::sort(intervals.begin(), intervals.end(), before);
  IntervalSet set;
  for (const Interval& next : intervals) {
    if (!set.empty() && next.begin <= set.back().end)
      set.back().end = std::max(set.back().end, next.end);
    else
      set.push_back(next);
  }
  return set;
}

IntervalSet intersection(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet both;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Interval common{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (common.begin < common.end) both.push_back(common);
    if (a[i].end < b[j].end)
      ++i;
    else
      ++j;
  }
  return both;
}

Ns length(const IntervalSet& set) {
  Ns total = 0;
  for (const Interval& interval : set) total += interval.end - interval.begin;
  return total;
}

Ns covered(const IntervalSet& set, const Interval& within) {
  Ns total = 0;
  auto next = std::ranges::lower_bound(
      set, within.begin, [](Ns end, Ns begin) { return end <= begin; }, &Interval::end);
  for (; next != set.end() && next->begin < within.end; ++next)
    total += std::min(next->end, within.end) - std::max(next->begin, within.begin);
  return total;
}

}  // namespace foregather::compare
