// A value that holds until it changes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/base/units.h"
#include "gui/models/track.h"

namespace foregather::gui {

/// A step function of time with a pyramid of maxima, so that a picture shows every peak at the cost
/// of its pixels. 16 bytes a point and a fifteenth of 4 more.
class StepCurve {
 public:
  /// From `time` on. A time before the last one counts as the last one.
  void add(Ns time, Bytes value);
  /// After the last add(), before any query. Behind `end` there is nothing.
  void finish(Ns end = std::numeric_limits<Ns>::max());

  bool empty() const { return times_.empty(); }
  std::size_t size() const { return times_.size(); }
  Ns time(std::size_t point) const { return times_[point]; }
  Bytes value(std::size_t point) const { return values_[point]; }
  Ns end() const { return end_; }

  /// The point in force at a time; size() before the first one.
  std::size_t at(Ns time) const;
  /// The highest point of [first, last), the first of equals. The interval must not be empty.
  std::size_t highest(std::size_t first, std::size_t last) const;
  /// The highest point in force in the range, before end(); size() if there is none.
  std::size_t highest(TimeRange range) const;

  /// Calls visit(begin, end, point) over the range in order: `point` is the highest in force then.
  /// Changes within one `pixel` (at least 1 ns) make one visit.
  template <class Visit>
  void columns(TimeRange range, Ns pixel, Visit&& visit) const {
    if (empty()) return;
    range.end = std::min(range.end, end_);
    std::size_t now = at(range.begin);
    Ns begin = range.begin;
    if (now == size()) {
      now = 0;
      begin = times_[0];
    }
    while (begin < range.end) {
      const std::size_t next = now + 1;
      if (next == size() || times_[next] - begin >= pixel) {
        const Ns end = next == size() ? range.end : std::min(range.end, times_[next]);
        visit(begin, end, now);
        begin = end;
        now = next;
        if (now == size()) return;
        continue;
      }
      const Ns end = std::min(begin + pixel, range.end);
      const std::size_t last = after(next, end);
      visit(begin, end, highest(now, last));
      begin = end;
      now = last - 1;
    }
  }

 private:
  std::size_t after(std::size_t from, Ns time) const;  // first point at `time` or later

  std::vector<Ns> times_;
  std::vector<Bytes> values_;
  Ns end_ = std::numeric_limits<Ns>::max();
  LargestOf highest_;
};

}  // namespace foregather::gui
