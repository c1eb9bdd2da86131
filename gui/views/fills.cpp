#include "gui/views/fills.h"

#include <algorithm>
#include <cmath>

namespace foregather::gui {

Fills::Fills(QPainter& painter, double y, double height)
    : painter_(painter),
      y_(static_cast<int>(std::lround(y))),
      height_(static_cast<int>(std::lround(height))) {}

Fills::~Fills() {
  painter_.save();
  painter_.setPen(Qt::NoPen);
  for (const auto& [color, rects] : colors_) {
    painter_.setBrush(QColor::fromRgba(color));
    painter_.drawRects(rects.data(), static_cast<int>(rects.size()));
  }
  painter_.restore();
}

void Fills::add(double left, double right, const QColor& color) {
  const auto from = static_cast<int>(std::floor(left));
  const int to = std::max(from + 1, static_cast<int>(std::floor(right)));
  std::vector<QRect>& rects = of(color.rgba());
  if (last_ == &rects && from <= rects.back().right() + 1)
    rects.back().setRight(std::max(rects.back().right(), to - 1));
  else
    rects.emplace_back(from, y_, to - from, height_);
  last_ = &rects;
}

std::vector<QRect>& Fills::of(QRgb color) {
  for (auto& [known, rects] : colors_)
    if (known == color) return rects;
  last_ = nullptr;  // the vectors move
  return colors_.emplace_back(color, std::vector<QRect>()).second;
}

}  // namespace foregather::gui
