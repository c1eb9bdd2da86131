// What of a document is shown, and how.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "gui/models/lanes.h"
#include "gui/models/time_axis.h"

namespace foregather::gui {

inline constexpr double kGutter = 176;  ///< pixels of labels left of the axis

/// Which part of a document a view shows: where it goes back to.
struct ViewPlace {
  TimeRange range{0, 1};
  std::array<bool, 2> show{true, true};  ///< sides
  std::vector<std::size_t> order;        ///< lanes shown, from above
  std::size_t pinned = 0;                ///< so many of them stay on top
  friend bool operator==(const ViewPlace&, const ViewPlace&) = default;
};

/// Plain values: a picture is a function of a document and of this.
struct ViewState : ViewPlace {
  double scroll = 0;  ///< of the lanes, in pixels
  double gutter = kGutter;
  bool overlay = false;   ///< both sides in one place
  bool path = true;       ///< critical paths lit
  bool by_cause = false;  ///< memory stacked by cause instead of curves
  std::optional<Span> selected;
  std::optional<TimeRange> selection;       ///< a range of time …
  std::vector<std::size_t> selected_lanes;  ///< … on these lanes
  std::optional<Ns> cursor;                 ///< where memory is asked for
  std::vector<Span> marks;

  const ViewPlace& place() const { return *this; }
};

/// Pins a lane below those that are pinned already, or lets it go back to where it belongs.
void toggle_pin(ViewState& view, std::size_t lane);
/// Moves a lane by one place, among the pinned ones or among the others.
void move_lane(ViewState& view, std::size_t lane, bool down);

/// Everything of the compared steps, all lanes in order.
ViewState first_view(const Session& session, const std::vector<Lane>& lanes);

}  // namespace foregather::gui
