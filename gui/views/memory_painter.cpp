#include "gui/views/memory_painter.h"

#include <QPainterPath>
#include <algorithm>
#include <cmath>

#include "core/base/text.h"
#include "gui/views/text_fit.h"

namespace foregather::gui {
namespace {

constexpr double kTop = 16, kNearLimit = 2.0;

/// Bytes to heights.
struct Scale {
  double bottom = 0, height = 1, most = 1;
  double y(Bytes bytes) const { return bottom - height * static_cast<double>(bytes) / most; }
};

double most_of(const RankMemory& memory, TimeRange range, bool by_cause) {
  const StepCurve& curve =
      by_cause && !memory.total().empty() ? memory.total() : memory.highest_curve();
  const std::size_t highest = curve.highest(range);
  double most = highest < curve.size() ? static_cast<double>(curve.value(highest)) : 0;
  if (const auto limit = memory.limit(); limit && static_cast<double>(*limit) < most * kNearLimit)
    most = std::max(most, static_cast<double>(*limit));
  return most;
}

void paint_curve(QPainter& painter, const QRectF& area, const Scene& scene, const StepCurve& curve,
                 const Scale& scale, const QPen& pen, const QBrush& fill) {
  const TimeAxis axis = axis_of(area, scene.view);
  QPainterPath path;
  double last = 0;
  bool is_begun = false;
  curve.columns(axis.range, axis.pixel(), [&](Ns begin, Ns end, std::size_t point) {
    const double left = x_of(area, axis, begin), right = x_of(area, axis, end);
    const double y = scale.y(curve.value(point));
    if (!is_begun) {
      path.moveTo(left, fill == Qt::NoBrush ? y : scale.bottom);
      is_begun = true;
    }
    path.lineTo(left, y);
    path.lineTo(right, y);
    last = right;
  });
  if (!is_begun) return;
  if (fill != Qt::NoBrush) {
    QPainterPath closed = path;
    closed.lineTo(last, scale.bottom);
    closed.closeSubpath();
    painter.fillPath(closed, fill);
  }
  painter.strokePath(path, pen);
}

void paint_curves(QPainter& painter, const QRectF& area, const Scene& scene,
                  const RankMemory& memory, std::size_t side, const Scale& scale) {
  QColor color = scene.theme.side[side];
  const auto pen = [&](double width, Qt::PenStyle style) { return QPen(color, width, style); };
  QColor fill = color;
  fill.setAlpha(side == 0 ? 56 : 36);
  paint_curve(painter, area, scene, memory.curve(MemoryCurve::allocated), scale,
              pen(1.2, Qt::SolidLine), fill);
  paint_curve(painter, area, scene, memory.curve(MemoryCurve::active), scale,
              pen(0.8, Qt::DashDotLine), Qt::NoBrush);
  paint_curve(painter, area, scene, memory.curve(MemoryCurve::requested), scale,
              pen(0.8, Qt::DotLine), Qt::NoBrush);
  paint_curve(painter, area, scene, memory.curve(MemoryCurve::reserved), scale,
              pen(1.8, Qt::SolidLine), Qt::NoBrush);
}

void paint_causes(QPainter& painter, const QRectF& area, const Scene& scene,
                  const RankMemory& memory, const Scale& scale) {
  const TimeAxis axis = axis_of(area, scene.view);
  memory.total().columns(axis.range, axis.pixel(), [&](Ns begin, Ns end, std::size_t point) {
    const auto left = static_cast<int>(std::floor(x_of(area, axis, begin)));
    const int right = std::max(left + 1, static_cast<int>(std::floor(x_of(area, axis, end))));
    const BytesByCause held = memory.by_cause(point);
    Bytes below = 0;
    auto bottom = static_cast<int>(std::lround(scale.y(0)));
    for (std::size_t cause = 0; cause < kCauses; ++cause) {
      below += held[cause];
      const auto top = static_cast<int>(std::lround(scale.y(below)));
      painter.fillRect(left, top, right - left, bottom - top, scene.theme.cause[cause]);
      bottom = top;
    }
  });
}

// Of sides that share it, with what each of them left of it where it needed most.
void paint_limit(QPainter& painter, const QRectF& area, const Scene& scene, std::size_t pair,
                 const std::vector<std::size_t>& sides, Qt::AlignmentFlag end, const Scale& scale) {
  const auto limit = scene.document.memory[pair][sides.front()]->limit();
  if (!limit) return;
  const bool is_inside = static_cast<double>(*limit) <= scale.most;
  const double y = is_inside ? scale.y(*limit) : area.top() + kTop;
  painter.setPen(QPen(scene.theme.alarm, 1.2, Qt::DashLine));
  if (is_inside)
    painter.drawLine(QPointF(area.left() + scene.view.gutter, y), QPointF(area.right(), y));
  QString text = QString("%1limit %2").arg(is_inside ? "" : "↑ ", shown(format_bytes(*limit)));
  const Session& session = scene.document.session;
  if (sides.size() < session.sides())
    text.prepend(QString("%1: ").arg(QChar(session.letter(sides.front()))));
  for (const std::size_t side : sides) {
    const auto left = scene.document.memory[pair][side]->headroom(scene.view.range);
    if (!left) continue;
    const char* const what = scene.view.by_cause ? ", headroom of reserved " : ", headroom ";
    text += side == sides.front() ? what : ", ";
    if (sides.size() > 1) text += QString("%1 ").arg(QChar(session.letter(side)));
    text += shown(format_bytes(*left));
  }
  draw_fitting(
      painter,
      {area.left() + scene.view.gutter + 6, y - 15, area.width() - scene.view.gutter - 12, 14},
      end | Qt::AlignBottom, text);
}

void paint_ooms(QPainter& painter, const QRectF& area, const Scene& scene, const RankMemory& memory,
                double below) {
  const TimeAxis axis = axis_of(area, scene.view);
  for (const RankMemory::Oom& oom : memory.ooms()) {
    if (oom.time < axis.range.begin || oom.time > axis.range.end) continue;
    const double x = x_of(area, axis, oom.time), y = area.top() + kTop + 6 + below;
    painter.setPen(QPen(scene.theme.alarm, 2));
    painter.drawLine(QPointF(x, area.top() + kTop), QPointF(x, area.bottom()));
    painter.drawLine(QPointF(x - 5, y - 5), QPointF(x + 5, y + 5));
    painter.drawLine(QPointF(x - 5, y + 5), QPointF(x + 5, y - 5));
    const bool to_left = x > area.center().x();
    const QString what =
        QString("no memory for %1 of %2").arg(shown(format_bytes(oom.requested)), shown(oom.name));
    QRectF place(to_left ? x - 310 : x + 10, y - 7, 300, 14);
    place.setLeft(std::max(place.left(), area.left() + scene.view.gutter));
    place.setRight(std::min(place.right(), area.right()));
    // Over the curves, about as wide as the text is in any font.
    const double width =
        std::max(0.0, std::min(6.0 * static_cast<double>(what.size()), place.width()));
    painter.fillRect(QRectF(to_left ? place.right() - width : place.left(), place.top(), width, 14),
                     scene.theme.ground);
    draw_fitting(painter, place, (to_left ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter,
                 what);
  }
}

void paint_labels(QPainter& painter, const QRectF& area, const Scene& scene, std::size_t pair,
                  const Scale& scale, const QString& what) {
  painter.setPen(scene.theme.text);
  const QRectF gutter(area.left() + 8, area.top() + kTop, scene.view.gutter - 84,
                      area.height() - kTop);
  draw_fitting(painter, {gutter.left(), gutter.top(), gutter.width(), 14},
               Qt::AlignLeft | Qt::AlignVCenter,
               shown(scene.document.session.pairs()[pair].title()));
  painter.setPen(scene.theme.faint);
  draw_fitting(painter, {gutter.left(), gutter.top() + 15, gutter.width(), 14},
               Qt::AlignLeft | Qt::AlignVCenter, what);
  const int lines = area.height() > 120 ? 4 : 2;
  for (int i = 0; i <= lines; ++i) {
    const auto bytes = static_cast<Bytes>(scale.most * i / lines);
    const double y = scale.y(bytes);
    painter.setPen(scene.theme.grid);
    painter.drawLine(QPointF(area.left() + scene.view.gutter, y), QPointF(area.right(), y));
    painter.setPen(scene.theme.faint);
    painter.drawText(QRectF(area.left() + scene.view.gutter - 82, y - 7, 76, 14),
                     Qt::AlignRight | Qt::AlignVCenter, shown(format_bytes(bytes)));
  }
}

}  // namespace

std::vector<Cause> causes_of(const Document& document, std::size_t pair,
                             const std::array<bool, 2>& sides) {
  const auto is_held = [&](Cause cause) {
    const PairMemory& memory = document.memory[pair];
    for (std::size_t side = 0; side < 2; ++side)
      if (sides[side] && memory[side] && memory[side]->has_cause(cause)) return true;
    return false;
  };
  std::vector<Cause> causes;
  for (std::size_t cause = 0; cause < kCauses; ++cause)
    if (is_held(static_cast<Cause>(cause))) causes.push_back(static_cast<Cause>(cause));
  return causes;
}

bool knows_causes(const Document& document, std::size_t pair, const std::array<bool, 2>& sides) {
  const std::vector<Cause> causes = causes_of(document, pair, sides);
  return std::any_of(causes.begin(), causes.end(),
                     [](Cause cause) { return cause != Cause::unknown; });
}

void paint_memory(QPainter& painter, const QRectF& area, const Scene& scene, std::size_t pair) {
  painter.save();
  painter.setClipRect(area);
  painter.fillRect(area, scene.theme.ground);
  painter.setFont(picture_font(10));
  std::vector<std::size_t> sides;
  double most = 1;
  for (std::size_t side = 0; side < 2; ++side) {
    const auto& rank = scene.document.memory[pair][side];
    if (!rank || rank->empty() || !scene.view.show[side]) continue;
    if (scene.view.by_cause && rank->total().empty()) continue;
    sides.push_back(side);
    most = std::max(most, most_of(*rank, scene.view.range, scene.view.by_cause));
  }
  if (sides.empty()) {
    painter.setPen(scene.theme.faint);
    draw_fitting(painter, area.adjusted(8, 0, -8, 0), Qt::AlignLeft | Qt::AlignVCenter,
                 scene.view.by_cause ? "No allocation of this rank is known"
                                     : "Nothing is known of this rank's memory");
    painter.restore();
    return;
  }
  const auto of_limit = [&](std::vector<std::size_t> some, const RankMemory& memory) {
    std::erase_if(some, [&](std::size_t side) {
      return scene.document.memory[pair][side]->limit() != memory.limit();
    });
    return some;
  };
  const double bands = scene.view.by_cause ? static_cast<double>(sides.size()) : 1;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const RankMemory& memory = *scene.document.memory[pair][sides[i]];
    const double height = area.height() / bands;
    const QRectF band(area.left(),
                      area.top() + (scene.view.by_cause ? height * static_cast<double>(i) : 0),
                      area.width(), height);
    const Scale scale{band.bottom() - 4, band.height() - kTop - 4, most};
    const QString kind =
        QString("%1: %2").arg(QChar(scene.document.session.letter(sides[i])),
                              shown(name(scene.document.session.run(sides[i]).about.kind)));
    if (i == 0 || scene.view.by_cause)
      paint_labels(
          painter, band, scene, pair, scale,
          scene.view.by_cause ? kind + (memory.causes_inferred() ? ", inferred" : "") : "memory");
    painter.save();
    painter.setClipRect(QRectF(band.left() + scene.view.gutter, band.top(),
                               band.width() - scene.view.gutter, band.height()),
                        Qt::IntersectClip);
    if (scene.view.by_cause)
      paint_causes(painter, band, scene, memory, scale);
    else
      paint_curves(painter, band, scene, memory, sides[i], scale);
    const auto sharing = scene.view.by_cause ? std::vector{sides[i]} : of_limit(sides, memory);
    // Limits of both sides may lie close: each has its words at an end of its own.
    const auto end =
        i == 0 || sharing.size() > 1 || scene.view.by_cause ? Qt::AlignRight : Qt::AlignLeft;
    if (sharing.back() == sides[i]) paint_limit(painter, band, scene, pair, sharing, end, scale);
    constexpr double kLine = 16;
    paint_ooms(painter, band, scene, memory,
               scene.view.by_cause ? 0 : kLine * static_cast<double>(i));
    painter.restore();
  }
  paint_selection(painter, area, scene);
  painter.setPen(scene.theme.line);
  painter.drawLine(area.topLeft(), area.topRight());
  painter.restore();
}

}  // namespace foregather::gui
