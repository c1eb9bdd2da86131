// A sweep as points of a plane: step time against memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/run/sweep.h"
#include "gui/models/what_if.h"

namespace foregather::gui {

/// A point that has a place: one that fits.
struct SweepDot {
  std::size_t point = 0;  ///< of SweepPlot::points()
  Ns step = 0;
  /// Reserved, of the first and of later steps, as `sweep` compares; absent: not known.
  std::optional<Bytes> peak;
  bool on_front = false;
};

/// The last part of a dotted key: "micro_batch".
std::string_view short_key(std::string_view key);

/// Never changed once it is read.
class SweepPlot {
 public:
  /// Is it the database of a sweep?
  static bool is_sweep(const std::string& path);
  /// Errors: as of store::SweepReader; no rows.
  static Result<SweepPlot> read(const std::string& path);
  SweepPlot(std::string path, run::SweepInfo info, std::vector<run::SweepPoint> points);

  const std::string& path() const { return path_; }
  const run::SweepInfo& info() const { return info_; }
  const std::vector<run::SweepPoint>& points() const { return points_; }
  /// In order of step time, then of memory.
  const std::vector<SweepDot>& dots() const { return dots_; }
  /// Positions in dots() of those that no other one beats in both: times rise, memory falls. As in
  /// `sweep`, memory that is not known counts as none.
  const std::vector<std::size_t>& front() const { return front_; }
  /// What the allocator may have, where that is the same for all points.
  std::optional<Bytes> limit() const { return limit_; }
  std::int64_t without_memory() const { return oom_; }  ///< points that ran out of memory
  std::int64_t failed() const { return failed_; }

  /// "train.micro_batch=2 hw=h200_sxm": the settings of a point that differ between points.
  std::string title(const run::SweepPoint& point) const;
  /// Which of info().axes differ along the front.
  std::vector<std::size_t> front_axes() const;
  /// "2, –": the point's values on these axes; "–": as the source has it.
  std::string values(const run::SweepPoint& point, const std::vector<std::size_t>& axes) const;
  /// Names and values: settings and figures of a point.
  std::vector<std::pair<std::string, std::string>> details(const run::SweepPoint& point) const;
  /// What predicts the point again: the source as it was, with the point's settings.
  WhatIfSource source_of(const run::SweepPoint& point) const;

 private:
  std::string path_;
  run::SweepInfo info_;
  std::vector<run::SweepPoint> points_;
  std::vector<SweepDot> dots_;
  std::vector<std::size_t> front_;
  std::optional<Bytes> limit_;
  std::int64_t oom_ = 0, failed_ = 0;
};

/// Where times and sizes lie in a rectangle: times to the right, sizes up. What is not known lies
/// at the foot.
struct SweepScale {
  Ns least_step = 0, most_step = 1;
  std::optional<Bytes> most_peak;  ///< sizes begin at 0; absent: none is known
  double left = 0, top = 0, width = 1, height = 1;

  double x(Ns step) const;
  double y(std::optional<Bytes> peak) const;
};
/// All dots, and the limit where it is near enough to tell.
SweepScale sweep_scale(const SweepPlot& plot, double left, double top, double width, double height);

/// The dot nearest to a place, within `reach` pixels.
std::optional<std::size_t> dot_at(const SweepPlot& plot, const SweepScale& scale, double x,
                                  double y, double reach);

}  // namespace foregather::gui
