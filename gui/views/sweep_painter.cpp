#include "gui/views/sweep_painter.h"

#include <algorithm>

#include "core/base/printable.h"
#include "core/base/text.h"
#include "gui/models/time_axis.h"
#include "gui/views/text_fit.h"

namespace foregather::gui {
namespace {

constexpr double kLeft = 92, kBottom = 44, kTop = 34, kRight = 16;
constexpr double kTextLine = 19, kDot = 5, kRing = 8;

void paint_axes(QPainter& painter, const QRectF& area, const SweepScale& scale,
                const Theme& theme) {
  painter.setFont(picture_font(11));
  const double bottom = scale.top + scale.height, right = scale.left + scale.width;
  const TimeAxis axis{{scale.least_step, std::max(scale.most_step, scale.least_step + 1)},
                      scale.width};
  for (const Tick& tick : ticks(axis, 90)) {
    if (tick.label.empty()) continue;
    const double x = scale.left + axis.x(tick.time);
    painter.setPen(theme.grid);
    painter.drawLine(QPointF(x, scale.top), QPointF(x, bottom));
    painter.setPen(theme.faint);
    draw_fitting(painter, {x - 45, bottom + 3, 90, 16}, Qt::AlignHCenter | Qt::AlignTop,
                 shown(tick.label));
  }
  painter.setPen(theme.grid);
  painter.drawLine(QPointF(scale.left, bottom), QPointF(right, bottom));
  constexpr int kParts = 4;
  for (int i = 0; scale.most_peak && i <= kParts; ++i) {
    const Bytes size = *scale.most_peak / kParts * i;
    const double y = scale.y(size);
    painter.setPen(theme.grid);
    painter.drawLine(QPointF(scale.left, y), QPointF(right, y));
    painter.setPen(theme.faint);
    draw_fitting(painter, {area.left() + 4, y - 8, kLeft - 12, 16},
                 Qt::AlignRight | Qt::AlignVCenter, shown(format_bytes(size)));
  }
  painter.setPen(theme.text);
  draw_fitting(painter, {scale.left, bottom + 22, scale.width, 18}, Qt::AlignHCenter, "step time");
  draw_fitting(painter, {area.left() + 8, area.top() + 8, 240, 18}, Qt::AlignLeft,
               scale.most_peak ? "reserved memory" : "reserved memory: not known");
}

}  // namespace

SweepScale sweep_scale(const SweepPlot& plot, const QRectF& area) {
  return sweep_scale(plot, area.left() + kLeft, area.top() + kTop, area.width() - kLeft - kRight,
                     area.height() - kTop - kBottom);
}

void paint_sweep(QPainter& painter, const QRectF& area, const SweepPlot& plot, const Theme& theme) {
  const SweepScale scale = sweep_scale(plot, area);
  painter.fillRect(area, theme.ground);
  if (plot.dots().empty()) {
    painter.setFont(picture_font(12));
    painter.setPen(theme.faint);
    return painter.drawText(area, Qt::AlignCenter, "No point fits");
  }
  paint_axes(painter, area, scale, theme);
  if (plot.limit()) {
    const double y = scale.y(*plot.limit());
    painter.setPen(QPen(theme.alarm, 1, Qt::DashLine));
    painter.drawLine(QPointF(scale.left, y), QPointF(scale.left + scale.width, y));
    draw_fitting(painter, {scale.left, y - 17, scale.width - 4, 16}, Qt::AlignRight,
                 "limit " + shown(format_bytes(*plot.limit())));
  }
  const auto place = [&](const SweepDot& dot) {
    return QPointF(scale.x(dot.step), scale.y(dot.peak));
  };
  for (const SweepDot& dot : plot.dots()) {
    const QPointF at = place(dot);
    painter.fillRect(QRectF(at.x() - kDot / 2, at.y() - kDot / 2, kDot, kDot), theme.family[2]);
  }
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  QPolygonF line;
  for (const std::size_t member : plot.front()) {
    const QPointF at = place(plot.dots()[member]);
    if (!line.empty()) line << QPointF(at.x(), line.back().y());
    line << at;
  }
  painter.setPen(QPen(theme.path, 1.5));
  painter.setBrush(Qt::NoBrush);
  painter.drawPolyline(line);
  painter.setPen(Qt::NoPen);
  painter.setBrush(theme.path);
  for (const std::size_t member : plot.front())
    painter.drawEllipse(place(plot.dots()[member]), kDot, kDot);
  painter.restore();
}

void paint_chosen_dot(QPainter& painter, const QRectF& area, const SweepPlot& plot, std::size_t dot,
                      const Theme& theme) {
  const SweepScale scale = sweep_scale(plot, area);
  const SweepDot& chosen = plot.dots()[dot];
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(theme.text, 2));
  painter.setBrush(Qt::NoBrush);
  painter.drawEllipse(QPointF(scale.x(chosen.step), scale.y(chosen.peak)), kRing, kRing);
  painter.restore();
}

void paint_sweep_details(QPainter& painter, const QRectF& area, const SweepPlot& plot,
                         std::optional<std::size_t> dot, const Theme& theme) {
  painter.fillRect(area, theme.band);
  QRectF line(area.left() + 12, area.top() + 10, area.width() - 24, kTextLine);
  const auto text = [&](const QString& what, int flags, const QColor& color) {
    painter.setPen(color);
    draw_fitting(painter, line, flags | Qt::AlignVCenter, what, Qt::ElideMiddle);
  };
  const auto next = [&] { line.translate(0, kTextLine); };
  const auto head = [&](const QString& what) {
    QFont bold = picture_font(12);
    bold.setBold(true);
    painter.setFont(bold);
    text(what, Qt::AlignLeft, theme.text);
    painter.setFont(picture_font(12));
    next();
  };
  const auto row = [&](const QString& name, const QString& value) {
    if (line.bottom() > area.bottom()) return;
    const QRectF whole = line;
    line.setWidth(whole.width() * 0.52);
    text(name, Qt::AlignLeft, theme.faint);
    line =
        QRectF(whole.left() + whole.width() * 0.55, whole.top(), whole.width() * 0.45, kTextLine);
    text(value, Qt::AlignRight, theme.text);
    line = whole;
    next();
  };
  const auto count = [](std::size_t number) {
    return shown(format_count(static_cast<std::int64_t>(number)));
  };
  head("Sweep");
  row("source", shown(printable(plot.info().source)));
  row("points", count(plot.points().size()) + " of " + shown(format_count(plot.info().points)));
  row("fit", count(plot.dots().size()));
  row("on the front", count(plot.front().size()));
  row("out of memory", shown(format_count(plot.without_memory())));
  row("failed", shown(format_count(plot.failed())));
  next();
  if (!dot) {
    if (!plot.front().empty()) head("Front");
    const double last = area.bottom() - 3 * kTextLine;
    for (const std::size_t member : plot.front()) {
      if (line.bottom() > last) break;
      const SweepDot& shown_dot = plot.dots()[member];
      row(shown(printable(plot.title(plot.points()[shown_dot.point]))),
          shown(format_time(shown_dot.step) + ", " +
                (shown_dot.peak ? format_bytes(*shown_dot.peak) : "not known")));
    }
    return;
  }
  const SweepDot& chosen = plot.dots()[*dot];
  head(chosen.on_front ? "Point of the front" : "Point");
  for (const auto& [name, value] : plot.details(plot.points()[chosen.point]))
    row(shown(printable(name)), shown(printable(value)));
}

}  // namespace foregather::gui
