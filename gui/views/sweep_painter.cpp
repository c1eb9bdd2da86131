#include "gui/views/sweep_painter.h"

#include <QStringList>
#include <algorithm>

#include "core/base/printable.h"
#include "core/base/text.h"
#include "gui/models/time_axis.h"
#include "gui/views/text_fit.h"

namespace foregather::gui {
namespace {

constexpr double kLeft = 92, kBottom = 44, kAbove = 34, kRight = 16;
constexpr double kTextLine = 19, kDot = 5, kRing = 8;

void paint_axes(QPainter& painter, const QRectF& area, const SweepScale& scale,
                const Theme& theme) {
  painter.setFont(picture_font(11));
  const QFontMetrics metrics(painter.font());
  const double bottom = scale.top + scale.height, right = scale.left + scale.width;
  const TimeAxis axis{{scale.least_step, std::max(scale.most_step, scale.least_step + 1)},
                      scale.width};
  for (const Tick& tick : ticks(axis, 90)) {
    if (tick.label.empty()) continue;
    const double x = scale.left + axis.x(tick.time);
    painter.setPen(theme.grid);
    painter.drawLine(QPointF(x, scale.top), QPointF(x, bottom));
    painter.setPen(theme.faint);
    const QString text = shown(tick.label);
    const double width = metrics.horizontalAdvance(text) + 2;
    draw_fitting(painter, {std::min(x - width / 2, area.right() - width), bottom + 3, width, 16},
                 Qt::AlignHCenter | Qt::AlignTop, text);
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
  draw_fitting(painter, {area.left() + 8, area.top() + 8, area.width() - 16, 18}, Qt::AlignLeft,
               scale.most_peak ? "reserved memory" : "reserved memory: not known");
}

// Lines of names and values, one below another.
class DetailLines {
 public:
  DetailLines(QPainter& painter, const QRectF& area, const Theme& theme)
      : painter_(painter),
        bottom_(area.bottom()),
        theme_(theme),
        line_(area.left() + 12, area.top() + 10, area.width() - 24, kTextLine) {}

  /// For a line, and `below` others below it.
  bool has_room(int below) const { return line_.bottom() <= bottom_ - below * kTextLine; }
  void next() { line_.translate(0, kTextLine); }
  void head(const QString& what) {
    QFont bold = picture_font(12);
    bold.setBold(true);
    painter_.setFont(bold);
    text(line_, what, Qt::AlignLeft, theme_.text);
    painter_.setFont(picture_font(12));
    next();
  }
  void row(const QString& name, const QString& value) {
    if (!has_room(0)) return;
    const double width = line_.width();
    text({line_.left(), line_.top(), width * 0.52, kTextLine}, name, Qt::AlignLeft, theme_.faint);
    text({line_.left() + width * 0.55, line_.top(), width * 0.45, kTextLine}, value, Qt::AlignRight,
         theme_.text);
    next();
  }
  /// With commas between them, in as many lines as they need.
  void names(const QStringList& all) {
    QString part;
    for (const QString& name : all) {
      const QString longer = part.isEmpty() ? name : part + ", " + name;
      const bool fits = painter_.fontMetrics().horizontalAdvance(longer + ",") <= line_.width();
      if (!fits && !part.isEmpty()) names_line(part + ",");
      part = fits ? longer : name;
    }
    if (!part.isEmpty()) names_line(part);
  }

 private:
  void names_line(const QString& names) {
    text(line_, names, Qt::AlignLeft, theme_.faint);
    next();
  }
  void text(const QRectF& where, const QString& what, int flags, const QColor& color) {
    painter_.setPen(color);
    draw_fitting(painter_, where, flags | Qt::AlignVCenter, what, Qt::ElideMiddle);
  }

  QPainter& painter_;
  double bottom_;
  const Theme& theme_;
  QRectF line_;
};

// What its points have in common, then each by what it has for itself.
void paint_front(DetailLines& lines, const SweepPlot& plot) {
  const auto point_of = [&](std::size_t member) -> const run::SweepPoint& {
    return plot.points()[plot.dots()[member].point];
  };
  lines.head("Front");
  const std::vector<std::size_t> axes = plot.front_axes();
  QStringList names;
  for (std::size_t a = 0; a < plot.info().axes.size(); ++a) {
    const QString name = shown(printable(short_key(plot.info().axes[a].first)));
    if (std::find(axes.begin(), axes.end(), a) != axes.end())
      names << name;
    else
      lines.row(name, shown(printable(plot.values(point_of(plot.front().front()), {a}))));
  }
  lines.names(names);
  for (const std::size_t member : plot.front()) {
    if (!lines.has_room(3)) return;
    const SweepDot& dot = plot.dots()[member];
    lines.row(
        shown(printable(plot.values(point_of(member), axes))),
        shown(format_time(dot.step) + ", " + (dot.peak ? format_bytes(*dot.peak) : "not known")));
  }
}

}  // namespace

SweepScale sweep_scale(const SweepPlot& plot, const QRectF& area) {
  return sweep_scale(plot, area.left() + kLeft, area.top() + kAbove,
                     std::max(1.0, area.width() - kLeft - kRight),
                     std::max(1.0, area.height() - kAbove - kBottom));
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
  DetailLines lines(painter, area, theme);
  const auto count = [](std::size_t number) {
    return shown(format_count(static_cast<std::int64_t>(number)));
  };
  lines.head("Sweep");
  lines.row("source", shown(printable(plot.info().source)));
  lines.row("points",
            count(plot.points().size()) + " of " + shown(format_count(plot.info().points)));
  lines.row("fit", count(plot.dots().size()));
  lines.row("on the front", count(plot.front().size()));
  lines.row("out of memory", shown(format_count(plot.without_memory())));
  lines.row("failed", shown(format_count(plot.failed())));
  lines.next();
  if (!dot) {
    if (!plot.front().empty()) paint_front(lines, plot);
    return;
  }
  const SweepDot& chosen = plot.dots()[*dot];
  lines.head(chosen.on_front ? "Point of the front" : "Point");
  for (const auto& [name, value] : plot.details(plot.points()[chosen.point]))
    lines.row(shown(printable(name)), shown(printable(value)));
}

}  // namespace foregather::gui
