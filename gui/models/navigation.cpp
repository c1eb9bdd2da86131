#include "gui/models/navigation.h"

#include <algorithm>

#include "gui/models/details.h"

namespace foregather::gui {
namespace {

// No arrow leads to an op of the same stream.
std::optional<Span> held_back_by(const Document& document, const Span& span) {
  if (span.kind != SpanKind::op) return std::nullopt;
  const run::OpRow by = document.session.run(span.side).ops.bound_by[span.row];
  if (!by) return std::nullopt;
  return Span{span.side, SpanKind::op, by.row()};
}

std::optional<Span> held_back_first(const Document& document, const Span& span) {
  if (span.kind != SpanKind::op) return std::nullopt;
  const auto& bound_by = document.session.run(span.side).ops.bound_by;
  const auto found = std::ranges::find(bound_by, run::OpRow(span.row));
  if (found == bound_by.end()) return std::nullopt;
  return Span{span.side, SpanKind::op, static_cast<std::uint32_t>(found - bound_by.begin())};
}

}  // namespace

std::optional<Span> neighbour(const Document& document, const Span& span, bool next) {
  const auto place = document.place_of(span);
  if (!place) return std::nullopt;
  const LaneSide& side = document.lanes[place->lane].sides[place->side];
  const Track& track = side.tracks[place->track];
  if (next ? place->span + 1 >= track.size() : place->span == 0) return std::nullopt;
  return Span{span.side, span.kind, track.item(next ? place->span + 1 : place->span - 1),
              document.lanes[place->lane].pair};
}

std::optional<Span> followed(const Document& document, const Span& span, bool forward) {
  const auto flows = document.flows.of(span);
  const auto along = [&](FlowKind kind) -> std::optional<Span> {
    for (const Flow& flow : flows)
      if (flow.kind == kind && (forward ? flow.from : flow.to) == span && flow.from != flow.to)
        return forward ? flow.to : flow.from;
    return std::nullopt;
  };
  std::optional<Span> end = along(FlowKind::wait);
  if (!end && !forward) end = held_back_by(document, span);
  if (!end) end = along(FlowKind::gather);
  if (!end && forward) end = held_back_first(document, span);
  if (!end) end = along(FlowKind::launch);
  if (end) end->pair = span.pair;
  return end;
}

Span span_of(const ResidualRow& row) {
  return row.second ? Span{1, SpanKind::op, row.second.row(), row.pair}
                    : Span{0, SpanKind::op, row.first.row(), row.pair};
}

TimeRange range_around(const Document& document, const Span& span) {
  const TimeRange own = range_of(document.session, span);
  const Ns margin = std::max<Ns>(own.length() / 2, 1);
  return clamped({own.begin - margin, own.end + margin}, document.session.extent());
}

TimeRange range_showing(const Document& document, const Span& span, TimeRange range) {
  const TimeRange own = range_of(document.session, span);
  if (own.begin >= range.begin && own.end <= range.end) return range;
  if (own.length() > range.length()) return range_around(document, span);
  return moved(range, own.begin + own.length() / 2 - range.begin - range.length() / 2,
               document.session.extent());
}

bool have_same_lanes(const Document& a, const Document& b) {
  return std::equal(a.lanes.begin(), a.lanes.end(), b.lanes.begin(), b.lanes.end(),
                    [](const Lane& lane, const Lane& other) {
                      return lane.pair == other.pair && lane.label() == other.label();
                    });
}

ViewState continued_view(const ViewState& view, const Document& old, const Document& now) {
  const ViewState first = first_view(now.session, now.lanes);
  ViewState next = view;
  next.range = view.range == first_view(old.session, old.lanes).range
                   ? first.range
                   : clamped(view.range, now.session.extent());
  if (!have_same_lanes(old, now)) {
    next.order = first.order;
    next.pinned = 0;
  }
  if (now.session.sides() < 2) next.show = first.show;
  next.marks.clear();
  next.selection.reset();
  next.selected_lanes.clear();
  next.cursor.reset();
  const auto is_there = [&](const Span& span) {
    return span.side < now.session.sides() && span.kind == SpanKind::op &&
           span.row < now.session.run(span.side).ops.size() &&
           full_name(now.session, span) == full_name(old.session, span);
  };
  if (next.selected && !is_there(*next.selected)) next.selected.reset();
  if (next.selected && next.selected->pair >= now.session.pairs().size())
    next.selected->pair.reset();
  return next;
}

double scroll_showing(const Document& document, const TimelineLayout& layout, const Span& span,
                      double scroll, double height) {
  const auto place = document.place_of(span);
  if (!place) return scroll;
  const auto row = std::find_if(layout.rows.begin(), layout.rows.end(),
                                [&](const LaneRow& each) { return each.lane == place->lane; });
  if (row == layout.rows.end()) return scroll;
  if (row->y - TimelineLayout::kHeader < scroll)
    return std::max(0.0, row->y - TimelineLayout::kHeader);
  return std::max(scroll, row->y + row->height - height);
}

}  // namespace foregather::gui
