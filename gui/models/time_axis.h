// Time to pixels and back.
#pragma once

#include <string>
#include <vector>

#include "gui/models/track.h"

namespace foregather::gui {

/// A part of time on a width in pixels. Pure arithmetic.
struct TimeAxis {
  TimeRange range{0, 1};
  double width = 1;
  double left = 0;  ///< pixels before it

  double x(Ns time) const {
    return static_cast<double>(time - range.begin) * width / static_cast<double>(range.length());
  }
  Ns time(double x) const;
  /// What one pixel covers, rounded up, at least 1 ns.
  Ns pixel() const;
};

/// `range` scaled by `factor` (< 1 shows less) around a time that keeps its place, within `limits`
/// and no shorter than 1 ns.
TimeRange zoomed(TimeRange range, double factor, Ns around, TimeRange limits);
/// Moved by a share of its length, or by a time, within `limits`.
TimeRange panned(TimeRange range, double share, TimeRange limits);
TimeRange moved(TimeRange range, Ns by, TimeRange limits);
/// Within `limits`, of the same length where that fits, at least 1 ns.
TimeRange clamped(TimeRange range, TimeRange limits);

struct Tick {
  Ns time = 0;
  std::string label;  ///< empty: a small one
};
/// When something is on the axis, to the nanosecond: neighbours differ in it. "1.000000042 s".
std::string format_position(Ns time);

/// Round times of the axis, labels at least `apart` pixels from each other. Labels have the unit
/// and the digits that tell neighbours apart. None on less than a pixel.
std::vector<Tick> ticks(const TimeAxis& axis, double apart);

}  // namespace foregather::gui
