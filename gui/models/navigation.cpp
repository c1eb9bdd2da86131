#include "gui/models/navigation.h"

#include <algorithm>

#include "gui/models/details.h"

namespace foregather::gui {

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
  for (const FlowKind kind : {FlowKind::wait, FlowKind::gather, FlowKind::launch})
    for (const Flow& flow : flows) {
      if (flow.kind != kind) continue;
      const bool leads_on =
          forward ? flow.from == span && flow.to != span : flow.to == span && flow.from != span;
      if (!leads_on) continue;
      Span end = forward ? flow.to : flow.from;
      end.pair = span.pair;
      return end;
    }
  return std::nullopt;
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
