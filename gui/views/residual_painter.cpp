#include "gui/views/residual_painter.h"

#include <algorithm>

#include "core/base/text.h"
#include "gui/views/text_fit.h"

namespace foregather::gui {
namespace {

constexpr double kRow = 18;

struct Column {
  ResidualColumn column;
  double share;  ///< of the width
  bool is_number;
};
constexpr std::array kColumns{
    Column{ResidualColumn::op, 0.40, false},        Column{ResidualColumn::level, 0.10, false},
    Column{ResidualColumn::first, 0.09, true},      Column{ResidualColumn::second, 0.09, true},
    Column{ResidualColumn::difference, 0.09, true}, Column{ResidualColumn::error, 0.08, true},
    Column{ResidualColumn::source, 0.15, false}};

template <class Text>
void paint_line(QPainter& painter, const QRectF& line, Text&& text) {
  double x = line.left();
  for (const Column& column : kColumns) {
    const double width = line.width() * column.share;
    const Qt::Alignment align = column.is_number ? Qt::AlignRight : Qt::AlignLeft;
    draw_fitting(painter, {x + 4, line.top(), width - 8, line.height()},
                 static_cast<int>(align | Qt::AlignVCenter), text(column.column),
                 column.column == ResidualColumn::op ? Qt::ElideLeft : Qt::ElideRight);
    x += width;
  }
}

}  // namespace

void paint_histogram(QPainter& painter, const QRectF& area, const ErrorHistogram& histogram,
                     const Theme& theme) {
  painter.save();
  painter.setFont(picture_font(10));
  const double foot = 16, head = 16;
  const QRectF plot = area.adjusted(8, head, -8, -foot);
  const auto most =
      std::max<std::int64_t>(1, *std::max_element(histogram.rows.begin(), histogram.rows.end()));
  const double width = plot.width() / static_cast<double>(ErrorHistogram::kBins);
  constexpr double kText = 70;
  const std::size_t apart = 5 * width < kText ? 10 : 5;  // bins between texts
  const QFontMetrics metrics(painter.font());
  for (std::size_t bin = 0; bin < ErrorHistogram::kBins; ++bin) {
    const double error = (static_cast<double>(bin) - 10) / 10;
    const double height =
        plot.height() * static_cast<double>(histogram.rows[bin]) / static_cast<double>(most);
    const double x = plot.left() + width * static_cast<double>(bin);
    painter.fillRect(QRectF(x + 1, plot.bottom() - height, width - 2, height),
                     theme.residual(error));
    painter.setPen(theme.faint);
    if (bin % apart == 0) {
      const int percent = static_cast<int>(bin) * 10 - 100;
      const QString sign = percent > 0 ? "+" : "";
      const QString text = bin == 0    ? "≤ -95 %"
                           : bin == 20 ? "≥ +95 %"
                                       : QString("%1%2 %").arg(sign).arg(percent);
      const double at =
          std::max(area.left(), std::min(x + (width - kText) / 2, area.right() - kText));
      draw_fitting(painter, {at, plot.bottom() + 1, std::min(kText, area.width()), foot},
                   Qt::AlignCenter, text);
    }
    const QString rows = shown(format_count(histogram.rows[bin]));
    if (histogram.rows[bin] > 0 && metrics.horizontalAdvance(rows) <= width)
      painter.drawText(QRectF(x, plot.bottom() - height - 14, width, 14), Qt::AlignCenter, rows);
  }
  painter.setPen(theme.line);
  painter.drawLine(plot.bottomLeft(), plot.bottomRight());
  painter.restore();
}

void paint_residual_table(QPainter& painter, const QRectF& area, const Residuals& residuals,
                          const Theme& theme) {
  painter.save();
  painter.setFont(picture_font(11));
  QRectF line(area.left(), area.top(), area.width(), kRow);
  painter.fillRect(line, theme.band);
  painter.setPen(theme.text);
  paint_line(painter, line, [&](ResidualColumn column) { return shown(residuals.title(column)); });
  const auto fit = static_cast<std::size_t>(std::max(0.0, area.height() / kRow - 2));
  const std::size_t rows = std::min(fit, residuals.shown().size());
  for (std::size_t i = 0; i < rows; ++i) {
    line.translate(0, kRow);
    const ResidualRow& row = residuals.row(residuals.shown()[i]);
    if (const auto error = residuals.error(row))
      painter.fillRect(QRectF(line.left(), line.top() + 2, 3, kRow - 4), theme.residual(*error));
    paint_line(painter, line,
               [&](ResidualColumn column) { return shown(residuals.text(row, column)); });
  }
  line.translate(0, kRow);
  painter.setPen(theme.faint);
  const auto left = static_cast<std::int64_t>(residuals.shown().size() - rows);
  if (left > 0)
    draw_fitting(painter, line.adjusted(4, 0, -4, 0), Qt::AlignLeft | Qt::AlignVCenter,
                 QString("and %1 more").arg(shown(format_count(left))));
  painter.restore();
}

}  // namespace foregather::gui
