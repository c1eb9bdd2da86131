#include "gui/views/timeline_painter.h"

#include <QPainterPath>
#include <algorithm>
#include <array>
#include <cmath>

#include "gui/views/fills.h"

namespace foregather::gui {
namespace {

constexpr double kLabelWidth = 34, kTextureWidth = 3, kLinkWidth = 8, kOverlayOpacity = 0.55;

QColor color_of(const Scene& scene, const LaneSide& side, std::uint8_t kind) {
  return side.kind == SpanKind::call ? scene.theme.host : scene.theme.of(static_cast<OpKind>(kind));
}

/// Colours of all kinds as pixels.
std::array<QRgb, compare::kOpKinds> pixels_of(const Scene& scene, const LaneSide& side) {
  std::array<QRgb, compare::kOpKinds> pixels{};
  for (std::size_t kind = 0; kind < compare::kOpKinds; ++kind)
    pixels[kind] = color_of(scene, side, static_cast<std::uint8_t>(kind)).rgb();
  return pixels;
}

QRectF box_of(const QRectF& area, const TimeAxis& axis, TimeRange range, double y, double height) {
  const double left = x_of(area, axis, range.begin), right = x_of(area, axis, range.end);
  return {left, y, std::max(1.0, right - left), height};
}

}  // namespace

void TimelinePainter::paint(QPainter& painter, const QRectF& area, const Scene& scene,
                            const TimelineLayout& layout) {
  painted_.clear();
  painter.save();
  painter.setClipRect(area);
  painter.fillRect(area, scene.theme.ground);
  paint_grid(painter, area, scene);
  painter.setFont(picture_font(11));
  const double top = scene.view.scroll, bottom = top + area.height();
  for (const LaneRow& row : layout.rows)
    if (row.y < bottom && row.y + row.height > top) paint_row(painter, area, scene, row);
  for (const HeaderRow& header : layout.headers)
    if (header.y < bottom && header.y + TimelineLayout::kHeader > top)
      paint_header(painter, area, scene, header);
  paint_flows(painter, area, scene, layout);
  paint_labels(painter, area, scene);
  paint_selection(painter, area, scene);
  painter.restore();
}

void TimelinePainter::paint_header(QPainter& painter, const QRectF& area, const Scene& scene,
                                   const HeaderRow& header) {
  const double y = area.top() + header.y - scene.view.scroll;
  const QRectF line(area.left(), y, area.width(), TimelineLayout::kHeader);
  painter.fillRect(line, scene.theme.band);
  painter.setPen(scene.theme.text);
  QFont bold = picture_font(11);
  bold.setBold(true);
  painter.setFont(bold);
  draw_fitting(painter, line.adjusted(8, 0, -8, 0), Qt::AlignLeft | Qt::AlignVCenter,
               shown(scene.document.session.pairs()[header.pair].title()));
  painter.setFont(picture_font(11));
}

void TimelinePainter::paint_row(QPainter& painter, const QRectF& area, const Scene& scene,
                                const LaneRow& row) {
  const Lane& lane = scene.document.lanes[row.lane];
  const double y = area.top() + row.y - scene.view.scroll;
  painter.setPen(scene.theme.grid);
  painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));

  const QRectF axis_area(area.left() + scene.view.gutter, area.top(),
                         area.width() - scene.view.gutter, area.height());
  painter.save();
  painter.setClipRect(axis_area, Qt::IntersectClip);
  if (row.strip_y) paint_strip(painter, area, scene, row);
  // Over each other: what was measured below, what was predicted through it.
  if (row.shown[1]) paint_side(painter, area, scene, row, 1);
  if (scene.view.overlay && row.shown[1]) painter.setOpacity(kOverlayOpacity);
  if (row.shown[0]) paint_side(painter, area, scene, row, 0);
  painter.setOpacity(1);
  if (row.strip_y) paint_links(painter, area, scene, row);
  painter.restore();

  painter.setPen(scene.theme.text);
  const double sides = scene.document.session.sides() > 1 && !scene.view.overlay ? 20 : 0;
  draw_fitting(painter, {area.left() + 8, y + 1, scene.view.gutter - 16 - sides, row.height - 2},
               Qt::AlignLeft | Qt::AlignVCenter, shown(lane.label()), Qt::ElideMiddle);
  if (sides == 0) return;
  painter.setFont(picture_font(9));
  for (std::size_t side = 0; side < 2; ++side) {
    if (!row.shown[side]) continue;
    painter.setPen(scene.theme.side[side]);
    const QRectF place(area.left() + scene.view.gutter - 24,
                       area.top() + row.side_y[side] - scene.view.scroll, 18, row.bar);
    painter.drawText(place, Qt::AlignRight | Qt::AlignVCenter,
                     QString(QChar(scene.document.session.letter(side))));
  }
  painter.setFont(picture_font(11));
}

void TimelinePainter::paint_side(QPainter& painter, const QRectF& area, const Scene& scene,
                                 const LaneRow& row, std::size_t which) {
  const Lane& lane = scene.document.lanes[row.lane];
  const LaneSide& side = lane.sides[which];
  const TimeAxis axis = axis_of(area, scene.view);
  double y = area.top() + row.side_y[which] - scene.view.scroll;
  const double height = row.bar - 1;
  const auto pixels = pixels_of(scene, side);
  for (const Track& track : side.tracks) {
    if (y < area.bottom() && y + row.bar > area.top()) {
      Fills fills(painter, y, height);
      track.cells(axis.range, axis.pixel(), [&](const Track::Cell& cell) {
        const double left = x_of(area, axis, cell.begin), right = x_of(area, axis, cell.end);
        if (!cell.is_single() || right - left < kTextureWidth) {
          fills.add(left, right, pixels[cell.tag]);
          return;
        }
        fills.part();
        paint_span(painter, {left, y, std::max(1.0, right - left), height}, scene, lane,
                   {which, side.kind, track.item(cell.longest)});
      });
    }
    y += row.bar;
  }
  if (!scene.view.path || side.critical.empty()) return;
  const double line = area.top() + row.side_y[which] - scene.view.scroll + row.bar - 3;
  Fills fills(painter, line, 2);
  side.critical.cells(axis.range, axis.pixel(), [&](const Track::Cell& cell) {
    const QRectF box = box_of(area, axis, {cell.begin, cell.end}, line, 2);
    fills.add(box.left(), box.right(), scene.theme.path.rgb());
  });
}

void TimelinePainter::paint_span(QPainter& painter, const QRectF& box, const Scene& scene,
                                 const Lane& lane, const Span& span) {
  const Session& session = scene.document.session;
  const QColor color =
      color_of(scene, lane.sides[span.side],
               lane.sides[span.side].kind == SpanKind::call
                   ? std::uint8_t{0}
                   : static_cast<std::uint8_t>(session.run(span.side).ops.kind[span.row]));
  // A gap tells neighbours apart.
  const QRectF inside = box.width() > 4 ? box.adjusted(0, 0, -1, 0) : box;
  painter.fillRect(inside, color);
  if (span.kind == SpanKind::op) {
    const TimeAxis axis = {scene.view.range, 1};
    const TimeRange whole = range_of(session, span);
    const auto& rank = session.pairs()[lane.pair].sides[span.side];
    for (const CommSpan& part : collective_parts(session, span.side, *rank, run::OpRow(span.row))) {
      if (part.part == CommPart::exposed || whole.length() == 0) continue;
      const double scale =
          box.width() / static_cast<double>(std::min(whole.end, axis.range.end) -
                                            std::max(whole.begin, axis.range.begin));
      const auto x = [&](Ns time) {
        const Ns from = std::max(whole.begin, axis.range.begin);
        return box.left() +
               static_cast<double>(std::clamp(time, from, axis.range.end) - from) * scale;
      };
      const double left = x(part.range.begin), right = std::min(x(part.range.end), inside.right());
      if (right > left)
        painter.fillRect(QRectF(left, box.top(), right - left, box.height()),
                         scene.theme.texture(part.part));
    }
  }
  if (scene.view.selected == span) {
    painter.setPen(QPen(scene.theme.text, 2));
    painter.drawRect(box.adjusted(1, 1, -1, -1));
  }
  if (box.width() < kLabelWidth || box.height() < 12) return;
  const QString label =
      labels_.fitting(session, span, QFontMetrics(painter.font()), inside.width() - 6);
  if (label.isEmpty()) return;
  const bool covers =
      span.kind == SpanKind::op && is_collective(session.run(span.side).ops.kind[span.row]);
  painted_.push_back({inside.adjusted(3, 0, -3, 0), label, color, painter.opacity(), covers});
}

void TimelinePainter::paint_strip(QPainter& painter, const QRectF& area, const Scene& scene,
                                  const LaneRow& row) {
  const Lane& lane = scene.document.lanes[row.lane];
  const TimeAxis axis = axis_of(area, scene.view);
  const double y = area.top() + *row.strip_y - scene.view.scroll;
  Fills fills(painter, y, TimelineLayout::kStrip);
  for (std::size_t t = 0; t < lane.sides[1].tracks.size(); ++t) {
    const Track& track = lane.sides[1].tracks[t];
    track.cells(axis.range, 2 * axis.pixel(), [&](const Track::Cell& cell) {
      const auto [first, second] = lane.residual(t, cell.first, cell.last);
      if (second == 0) return;
      const QRectF box = box_of(area, axis, {cell.begin, cell.end}, y, TimelineLayout::kStrip);
      fills.add(
          box.left(), box.right(),
          scene.theme.residual(static_cast<double>(first - second) / static_cast<double>(second))
              .rgb());
    });
  }
}

void TimelinePainter::paint_links(QPainter& painter, const QRectF& area, const Scene& scene,
                                  const LaneRow& row) {
  const Lane& lane = scene.document.lanes[row.lane];
  const TimeAxis axis = axis_of(area, scene.view);
  const double scroll = area.top() - scene.view.scroll;
  const double upper = scroll + row.side_y[0] + row.bar * static_cast<double>(lane.depth(0)) - 1;
  const double lower = scroll + row.side_y[1];
  painter.setRenderHint(QPainter::Antialiasing);
  for (const Track& track : lane.sides[1].tracks)
    track.cells(axis.range, axis.pixel(), [&](const Track::Cell& cell) {
      const double width = x_of(area, axis, cell.end) - x_of(area, axis, cell.begin);
      if (!cell.is_single() || width < kLinkWidth) return;
      const Span span{1, SpanKind::op, track.item(cell.first), lane.pair};
      const auto met = scene.document.counterpart(span);
      if (!met) return;
      const TimeRange there = range_of(scene.document.session, *met);
      // A line to what is not shown would lead to the edge, and there to nothing.
      if (there.begin < axis.range.begin || there.begin > axis.range.end ||
          cell.begin < axis.range.begin)
        return;
      const auto& selected = scene.view.selected;
      const bool is_chosen = selected && (*selected == span || *selected == *met) &&
                             selected->pair.value_or(lane.pair) == lane.pair;
      painter.setPen(QPen(is_chosen ? scene.theme.text : scene.theme.faint, is_chosen ? 2 : 0.8));
      painter.drawLine(QPointF(x_of(area, axis, there.begin), upper),
                       QPointF(x_of(area, axis, cell.begin), lower));
    });
  painter.setRenderHint(QPainter::Antialiasing, false);
}

void TimelinePainter::paint_labels(QPainter& painter, const QRectF& area, const Scene& scene) {
  painter.save();
  painter.setClipRect(QRectF(area.left() + scene.view.gutter, area.top(),
                             area.width() - scene.view.gutter, area.height()),
                      Qt::IntersectClip);
  const QFontMetrics metrics(painter.font());
  for (const Label& label : painted_) {
    painter.setOpacity(label.opacity);
    if (label.covers || scene.view.selected)
      painter.fillRect(QRectF(label.box.left() - 1, label.box.top() + 2,
                              metrics.horizontalAdvance(label.text) + 4, label.box.height() - 4),
                       label.ground);
    painter.setPen(Theme::text_on(label.ground));
    painter.drawText(label.box, Qt::AlignLeft | Qt::AlignVCenter | Qt::TextSingleLine, label.text);
  }
  painter.restore();
}

void TimelinePainter::paint_flows(QPainter& painter, const QRectF& area, const Scene& scene,
                                  const TimelineLayout& layout) {
  if (!scene.view.selected) return;
  const TimeAxis axis = axis_of(area, scene.view);
  const auto point = [&](const Span& span, Ns time) -> std::optional<QPointF> {
    Span there = span;
    there.pair = scene.view.selected->pair;
    auto place = scene.document.place_of(there);
    if (!place) place = scene.document.place_of(span);  // of another rank
    if (!place) return std::nullopt;
    for (const LaneRow& row : layout.rows)
      if (row.lane == place->lane && row.shown[place->side])
        return QPointF(x_of(area, axis, time),
                       area.top() - scene.view.scroll + row.side_y[place->side] +
                           row.bar * (static_cast<double>(place->track) + 0.5));
    return std::nullopt;
  };
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  for (const Flow& flow : scene.document.flows.of(*scene.view.selected)) {
    const auto from = point(flow.from, flow.from_time), to = point(flow.to, flow.to_time);
    if (!from || !to) continue;
    const bool is_launch = flow.kind == FlowKind::launch;
    QPen pen(is_launch ? scene.theme.faint : scene.theme.path, 1.5);
    if (flow.kind == FlowKind::gather) pen.setStyle(Qt::DashLine);
    painter.setPen(pen);
    painter.setBrush(Qt::NoBrush);
    const double bend = std::clamp(std::abs(to->x() - from->x()) / 2, 12.0, 80.0);
    QPainterPath path(*from);
    path.cubicTo(from->x() + bend, from->y(), to->x() - bend, to->y(), to->x(), to->y());
    painter.drawPath(path);
    painter.setBrush(pen.color());
    painter.setPen(Qt::NoPen);
    painter.drawPolygon(QPolygonF({*to, *to + QPointF(-7, -4), *to + QPointF(-7, 4)}));
  }
  painter.restore();
}

}  // namespace foregather::gui
