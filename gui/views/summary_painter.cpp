#include "gui/views/summary_painter.h"

#include <algorithm>

#include "gui/views/residual_painter.h"
#include "gui/views/text_fit.h"

namespace foregather::gui {
namespace {

constexpr double kMargin = 20, kLine = 19, kCard = 92, kGap = 12, kResidual = 18;

void heading(QPainter& painter, const QRectF& line, const Theme& theme, const QString& text) {
  QFont font = picture_font(13);
  font.setBold(true);
  painter.setFont(font);
  painter.setPen(theme.text);
  draw_fitting(painter, line, Qt::AlignLeft | Qt::AlignVCenter, text);
  painter.setFont(picture_font(12));
}

}  // namespace

SummaryPainter::SummaryPainter(const Document& document)
    : document_(document),
      figures_(five_figures(document.session)),
      badges_(gui::badges(document.session)),
      residuals_(document.residuals) {
  residuals_.filter("", true);
  residuals_.sort(ResidualColumn::difference, false);
}

double SummaryPainter::paint(QPainter& painter, const QRectF& area, const Theme& theme) {
  painter.save();
  painter.fillRect(area, theme.ground);
  places_.clear();
  QRectF rest = area.adjusted(kMargin, kMargin, -kMargin, -kMargin);
  for (const auto part : {&SummaryPainter::paint_about, &SummaryPainter::paint_figures,
                          &SummaryPainter::paint_badges})
    rest.setTop((this->*part)(painter, rest, theme) + kGap);
  double wanted = rest.top() - kGap + kMargin - area.top();
  if (residuals_.all() > 0) {
    constexpr std::size_t kRows = 3;
    wanted += kGap + kLine + 4 +
              kResidual * static_cast<double>(std::min(residuals_.shown().size(), kRows) + 2);
  }
  if (residuals_.all() > 0 && rest.height() > 4 * kLine) {
    heading(painter, {rest.left(), rest.top(), rest.width(), kLine}, theme, "Largest residuals");
    rest.setTop(rest.top() + kLine + 4);
    paint_residual_table(painter, rest, residuals_, theme);
    const auto fit = static_cast<std::size_t>(std::max(0.0, rest.height() / kResidual - 2));
    for (std::size_t i = 0; i < std::min(fit, residuals_.shown().size()); ++i)
      places_.push_back({QRectF(rest.left(), rest.top() + kResidual * static_cast<double>(i + 1),
                                rest.width(), kResidual),
                         false, i});
  }
  painter.restore();
  return wanted;
}

double SummaryPainter::paint_about(QPainter& painter, const QRectF& area, const Theme& theme) {
  const auto sides = static_cast<double>(document_.session.sides());
  const double width = (area.width() - kGap * (sides - 1)) / sides;
  double bottom = area.top();
  for (std::size_t side = 0; side < document_.session.sides(); ++side) {
    double y = area.top();
    const double x = area.left() + (width + kGap) * static_cast<double>(side);
    painter.fillRect(QRectF(x, y + 2, 4, kLine - 4), theme.side[side]);
    heading(painter, {x + 10, y, width - 10, kLine}, theme,
            shown(document_.session.open_run(side).location));
    for (const auto& [what, value] : about(document_.session, side)) {
      y += kLine;
      painter.setPen(theme.faint);
      draw_fitting(painter, {x + 10, y, std::min(84.0, width - 10), kLine},
                   Qt::AlignLeft | Qt::AlignVCenter, shown(what));
      painter.setPen(theme.text);
      draw_fitting(painter, {x + 98, y, width - 98, kLine}, Qt::AlignLeft | Qt::AlignVCenter,
                   shown(value), Qt::ElideMiddle);
    }
    bottom = std::max(bottom, y + kLine);
  }
  return bottom;
}

double SummaryPainter::paint_figures(QPainter& painter, const QRectF& area, const Theme& theme) {
  const double width = (area.width() - kGap * 4) / 5;
  for (std::size_t i = 0; i < figures_.size(); ++i) {
    const Figure& figure = figures_[i];
    const QRectF card(area.left() + (width + kGap) * static_cast<double>(i), area.top(), width,
                      kCard);
    painter.fillRect(card, theme.band);
    const QRectF inside = card.adjusted(10, 8, -10, -8);
    painter.setFont(picture_font(11));
    painter.setPen(theme.faint);
    draw_fitting(painter, {inside.left(), inside.top(), inside.width(), 14}, Qt::AlignLeft,
                 shown(figure.name));
    double y = inside.top() + 18;
    for (std::size_t side = 0; side < document_.session.sides(); ++side) {
      painter.setFont(picture_font(side == 0 ? 18 : 14));
      painter.setPen(theme.text);
      draw_fitting(painter, {inside.left(), y, inside.width(), 23},
                   Qt::AlignLeft | Qt::AlignVCenter, shown(figure.text(side)));
      y += 22;
    }
    const auto error = figure.error();
    if (!error) continue;
    painter.setFont(picture_font(11));
    const QString text = QString("%1%2 %").arg(*error > 0 ? "+" : "").arg(100 * *error, 0, 'f', 1);
    const QRectF place(inside.left(), y - 1, inside.width(), 15);
    painter.fillRect(QRectF(place.left(), place.top() + 3, 9, 9), theme.residual(*error));
    painter.setPen(theme.text);
    draw_fitting(painter, place.adjusted(14, 0, 0, 0), Qt::AlignLeft | Qt::AlignVCenter, text);
  }
  return area.top() + kCard;
}

double SummaryPainter::paint_badges(QPainter& painter, const QRectF& area, const Theme& theme) {
  painter.setFont(picture_font(11));
  const QFontMetrics metrics(painter.font());
  double x = area.left(), y = area.top();
  for (std::size_t i = 0; i < badges_.size(); ++i) {
    const QString text = "! " + shown(badges_[i].text);
    const double width = std::min(area.width(), metrics.horizontalAdvance(text) + 20.0);
    if (x + width > area.right() && x > area.left()) {
      x = area.left();
      y += 28;
    }
    const QRectF box(x, y, width, 22);
    painter.setPen(theme.alarm);
    painter.setBrush(theme.band);
    painter.drawRect(box);
    painter.setPen(theme.text);
    draw_fitting(painter, box.adjusted(9, 0, -9, 0), Qt::AlignLeft | Qt::AlignVCenter, text);
    places_.push_back({box, true, i});
    x += width + 8;
  }
  return badges_.empty() ? area.top() - kGap : y + 22;
}

}  // namespace foregather::gui
