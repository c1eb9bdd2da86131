// Where lanes lie, in pixels from the top of the first one. Pure arithmetic.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "gui/models/view_state.h"

namespace foregather::gui {

struct LaneRow {
  std::size_t lane = 0;
  double y = 0, height = 0;
  double bar = 0;                  ///< height of one track
  std::array<double, 2> side_y{};  ///< top of each side's first track
  std::array<bool, 2> shown{};     ///< sides that have something here
  std::optional<double> strip_y;   ///< top of the residual strip
};

/// The line above the lanes of a pair.
struct HeaderRow {
  std::size_t pair = 0;
  double y = 0;
};

struct TimelineLayout {
  std::vector<LaneRow> rows;
  std::vector<HeaderRow> headers;
  double height = 0;

  static constexpr double kHeader = 22, kStrip = 6, kPadding = 4, kBar = 18, kHostBar = 9;
};

TimelineLayout layout(const std::vector<Lane>& lanes, const ViewState& view);

/// What lies at a height: lane, side and track. Absent between lanes.
struct LayoutHit {
  std::size_t row = 0, side = 0, track = 0;
};
std::optional<LayoutHit> hit(const TimelineLayout& layout, const std::vector<Lane>& lanes,
                             double y);

/// The span at a point: within `slack` of the time; of several tracks the one at `y`.
std::optional<Span> span_at(const TimelineLayout& layout, const std::vector<Lane>& lanes, double y,
                            Ns time, Ns slack);

}  // namespace foregather::gui
