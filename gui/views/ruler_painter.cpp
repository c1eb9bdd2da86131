#include "gui/views/ruler_painter.h"

#include <algorithm>
#include <cmath>

#include "core/base/text.h"
#include "gui/views/text_fit.h"

namespace foregather::gui {
namespace {

constexpr double kTickApart = 110;

double crisp(double x) { return std::floor(x) + 0.5; }

}  // namespace

TimeAxis axis_of(const QRectF& area, const ViewState& view) {
  return {view.range, std::max(1.0, area.width() - view.gutter), view.gutter};
}

double x_of(const QRectF& area, const TimeAxis& axis, Ns time) {
  return area.left() + axis.left + std::clamp(axis.x(time), 0.0, axis.width);
}

void paint_ruler(QPainter& painter, const QRectF& area, const Scene& scene) {
  const TimeAxis axis = axis_of(area, scene.view);
  painter.fillRect(area, scene.theme.band);
  painter.setFont(picture_font(11));
  const QFontMetrics metrics(painter.font());
  double free = area.left() + axis.left;
  for (const Tick& tick : ticks(axis, kTickApart)) {
    const double x = crisp(x_of(area, axis, tick.time));
    painter.setPen(scene.theme.line);
    painter.drawLine(QPointF(x, area.bottom() - (tick.label.empty() ? 3 : 7)),
                     QPointF(x, area.bottom()));
    if (tick.label.empty()) continue;
    const QString text = shown(tick.label);
    const double width = metrics.horizontalAdvance(text);
    const double left = std::max(x - width / 2, free);
    if (left > x || left + width > area.right()) continue;
    painter.setPen(scene.theme.text);
    painter.drawText(QPointF(left, area.top() + metrics.ascent() + 2), text);
    free = left + width + 8;
  }
  painter.setPen(scene.theme.faint);
  draw_fitting(painter, {area.left() + 8, area.top(), axis.left - 16, area.height() - 4},
               Qt::AlignLeft | Qt::AlignVCenter,
               shown(format_time(scene.view.range.length())) + " shown");
}

void paint_grid(QPainter& painter, const QRectF& area, const Scene& scene) {
  const TimeAxis axis = axis_of(area, scene.view);
  painter.setPen(scene.theme.grid);
  for (const Tick& tick : ticks(axis, kTickApart))
    if (!tick.label.empty()) {
      const double x = crisp(x_of(area, axis, tick.time));
      painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
    }
  for (std::size_t side = 0; side < scene.document.session.sides(); ++side) {
    if (!scene.view.show[side]) continue;
    painter.setPen(QPen(scene.theme.side[side], 1, Qt::DashLine));
    for (const RankPair& pair : scene.document.session.pairs()) {
      if (!pair.sides[side] || !pair.sides[side]->step) continue;
      const run::StepInfo& step =
          scene.document.session.run(side).steps[pair.sides[side]->step.row()];
      for (const Ns time : {step.begin, step.end}) {
        const Ns at = scene.document.session.on_axis(side, time);
        if (at < axis.range.begin || at > axis.range.end) continue;
        const double x = crisp(x_of(area, axis, at));
        painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
      }
    }
  }
}

void paint_selection(QPainter& painter, const QRectF& area, const Scene& scene) {
  const TimeAxis axis = axis_of(area, scene.view);
  if (const auto& range = scene.view.selection) {
    const double left = x_of(area, axis, range->begin), right = x_of(area, axis, range->end);
    painter.fillRect(QRectF(left, area.top(), right - left, area.height()), scene.theme.selection);
  }
  if (scene.view.cursor) {
    const double x = crisp(x_of(area, axis, *scene.view.cursor));
    painter.setPen(QPen(scene.theme.faint, 1, Qt::DotLine));
    painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
  }
}

}  // namespace foregather::gui
