#include "gui/views/legend_painter.h"

#include <algorithm>
#include <set>

#include "gui/views/memory_painter.h"
#include "gui/views/text_fit.h"

namespace foregather::gui {
namespace {

constexpr double kSwatch = 12;

/// A box of a colour with a texture over it, or a line.
struct Entry {
  QString text;
  QColor color;
  QBrush texture = Qt::NoBrush;
  std::optional<QPen> line = {};
};

std::vector<Entry> of_timeline(const Scene& scene) {
  const Theme& theme = scene.theme;
  std::set<Family> used;
  bool has_comm = false;
  for (const OpKind kind : scene.document.kinds) {
    used.insert(family(kind));
    has_comm = has_comm || is_collective(kind);
  }
  std::vector<Entry> entries;
  for (const Family each : used)
    entries.push_back({title(each), theme.family[static_cast<std::size_t>(each)]});
  if (has_comm) {
    const QColor comm = theme.family[static_cast<std::size_t>(Family::gather)];
    entries.push_back({"waits for ranks", comm, theme.texture(CommPart::wait)});
    entries.push_back({"hidden", comm, theme.texture(CommPart::hidden)});
    entries.push_back({"exposed", comm});
  }
  if (scene.view.path) entries.push_back({"critical path", {}, Qt::NoBrush, QPen(theme.path, 2)});
  if (scene.document.residuals.all() > 0) {
    const Session& session = scene.document.session;
    const bool is_prediction = session.letter(0) == 'P';
    const QString first(QChar(session.letter(0)));
    entries.push_back(
        {is_prediction ? "predicted too short" : first + " shorter", theme.residual(-0.5)});
    entries.push_back({is_prediction ? "too long" : first + " longer", theme.residual(0.5)});
  }
  return entries;
}

std::vector<Entry> of_curves(const Scene& scene, std::size_t pair) {
  std::vector<Entry> entries;
  for (std::size_t side = 0; side < scene.document.session.sides(); ++side) {
    const auto& memory = scene.document.memory[pair][side];
    if (!memory || memory->empty() || !scene.view.show[side]) continue;
    const QColor color = scene.theme.side[side];
    const QChar letter(scene.document.session.letter(side));
    QColor fill = color;
    fill.setAlpha(70);
    entries.push_back({QString("%1: reserved").arg(letter), {}, Qt::NoBrush, QPen(color, 1.8)});
    entries.push_back({QString("%1: allocated").arg(letter), fill});
    entries.push_back(
        {QString("%1: active").arg(letter), {}, Qt::NoBrush, QPen(color, 1, Qt::DashDotLine)});
    entries.push_back(
        {QString("%1: requested").arg(letter), {}, Qt::NoBrush, QPen(color, 1, Qt::DotLine)});
  }
  return entries;
}

std::vector<Entry> of_causes(const Scene& scene, std::size_t pair) {
  std::vector<Entry> entries;
  for (const Cause cause : causes_of(scene.document, pair, scene.view.show))
    entries.push_back(
        {shown(name(cause)).replace('_', ' '), scene.theme.cause[static_cast<std::size_t>(cause)]});
  return entries;
}

}  // namespace

double paint_legend(QPainter* painter, const QRectF& area, const Scene& scene, LegendOf what,
                    std::size_t pair) {
  const QFont font = picture_font(10);
  const QFontMetrics metrics(font);
  if (painter != nullptr) painter->setFont(font);
  const std::vector<Entry> entries = what == LegendOf::timeline ? of_timeline(scene)
                                     : what == LegendOf::curves ? of_curves(scene, pair)
                                                                : of_causes(scene, pair);
  double x = area.left() + 8, y = area.top();
  for (const Entry& entry : entries) {
    const double width = kSwatch + 5 + metrics.horizontalAdvance(entry.text) + 14;
    if (x + width > area.right() && x > area.left() + 8) {
      x = area.left() + 8;
      y += kLegendLine;
    }
    if (painter != nullptr) {
      const QRectF box(x, y + (kLegendLine - kSwatch) / 2, kSwatch, kSwatch);
      if (entry.line) {
        painter->setPen(*entry.line);
        painter->drawLine(QPointF(box.left(), box.center().y()),
                          QPointF(box.right(), box.center().y()));
      } else {
        painter->fillRect(box, entry.color);
        painter->fillRect(box, entry.texture);
      }
      painter->setPen(scene.theme.faint);
      const double left = box.right() + 5;
      draw_fitting(*painter, {left, y, std::min(width, area.right() - left), kLegendLine},
                   Qt::AlignLeft | Qt::AlignVCenter, entry.text);
    }
    x += width;
  }
  return entries.empty() ? 0 : y + kLegendLine - area.top();
}

}  // namespace foregather::gui
