#include "gui/models/timeline_layout.h"

#include <algorithm>
#include <numeric>

namespace foregather::gui {

void toggle_pin(ViewState& view, std::size_t lane) {
  const auto at = std::find(view.order.begin(), view.order.end(), lane);
  if (at == view.order.end()) return;
  const auto pinned = static_cast<std::size_t>(at - view.order.begin()) < view.pinned;
  view.order.erase(at);
  const auto others =
      view.order.begin() + static_cast<std::ptrdiff_t>(view.pinned) - (pinned ? 1 : 0);
  if (pinned) {
    view.order.insert(
        std::find_if(others, view.order.end(), [lane](std::size_t other) { return other > lane; }),
        lane);
    --view.pinned;
  } else {
    view.order.insert(others, lane);
    ++view.pinned;
  }
}

void move_lane(ViewState& view, std::size_t lane, bool down) {
  const auto found = std::find(view.order.begin(), view.order.end(), lane);
  if (found == view.order.end()) return;
  const auto at = static_cast<std::size_t>(found - view.order.begin());
  const bool is_pinned = at < view.pinned;
  const std::size_t first = is_pinned ? 0 : view.pinned;
  const std::size_t last = is_pinned ? view.pinned : view.order.size();
  if (down ? at + 1 < last : at > first)
    std::swap(view.order[at], view.order[down ? at + 1 : at - 1]);
}

ViewState first_view(const Session& session, const std::vector<Lane>& lanes) {
  ViewState view;
  view.range = session.steps_of_hosts();
  view.order.resize(lanes.size());
  std::iota(view.order.begin(), view.order.end(), std::size_t{0});
  return view;
}

TimelineLayout layout(const std::vector<Lane>& lanes, const ViewState& view) {
  TimelineLayout out;
  std::optional<std::size_t> pair;
  for (std::size_t i = 0; i < view.order.size(); ++i) {
    const Lane& lane = lanes[view.order[i]];
    LaneRow row;
    row.lane = view.order[i];
    for (std::size_t side = 0; side < 2; ++side)
      row.shown[side] = view.show[side] && lane.depth(side) > 0;
    if (!row.shown[0] && !row.shown[1]) continue;
    if (pair != lane.pair || i == view.pinned) {
      pair = lane.pair;
      out.headers.push_back({lane.pair, out.height});
      out.height += TimelineLayout::kHeader;
    }
    row.y = out.height;
    row.bar = lane.is_host ? TimelineLayout::kHostBar : TimelineLayout::kBar;
    double y = row.y + TimelineLayout::kPadding;
    const auto depth = [&](std::size_t side) {
      return row.shown[side] ? row.bar * static_cast<double>(lane.depth(side)) : 0;
    };
    row.side_y = {y, y};
    if (!view.overlay) {
      y += depth(0);
      if (row.shown[0] && row.shown[1] && !lane.residuals.empty()) {
        row.strip_y = y + 1;
        y += TimelineLayout::kStrip + 2;
      } else if (row.shown[0] && row.shown[1]) {
        y += 1;
      }
      row.side_y[1] = y;
      y += depth(1);
    } else {
      y += std::max(depth(0), depth(1));
    }
    row.height = y + TimelineLayout::kPadding - row.y;
    out.height += row.height;
    out.rows.push_back(row);
  }
  return out;
}

std::optional<LayoutHit> hit(const TimelineLayout& layout, const std::vector<Lane>& lanes,
                             double y) {
  const auto after = std::upper_bound(layout.rows.begin(), layout.rows.end(), y,
                                      [](double at, const LaneRow& row) { return at < row.y; });
  if (after == layout.rows.begin()) return std::nullopt;
  const LaneRow& row = *(after - 1);
  for (const std::size_t side : {std::size_t{1}, std::size_t{0}}) {
    if (!row.shown[side] || y < row.side_y[side]) continue;
    const auto track = static_cast<std::size_t>((y - row.side_y[side]) / row.bar);
    if (track >= lanes[row.lane].depth(side)) continue;
    return LayoutHit{static_cast<std::size_t>(after - 1 - layout.rows.begin()), side, track};
  }
  return std::nullopt;
}

std::optional<Span> span_at(const TimelineLayout& layout, const std::vector<Lane>& lanes, double y,
                            Ns time, Ns slack) {
  const auto at = hit(layout, lanes, y);
  if (!at) return std::nullopt;
  const Lane& lane = lanes[layout.rows[at->row].lane];
  const LaneSide& side = lane.sides[at->side];
  const Track& track = side.tracks[at->track];
  const auto span = [&](std::size_t found) {
    return Span{at->side, side.kind, track.item(found), lane.pair};
  };
  if (const std::size_t exact = track.at(time); exact < track.size()) return span(exact);
  const std::size_t first = track.first_after(time - slack);
  if (first == track.size() || track.begin(first) > time + slack) return std::nullopt;
  return span(track.longest(first, std::max(first + 1, track.first_from(first, time + slack))));
}

}  // namespace foregather::gui
