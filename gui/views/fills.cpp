#include "gui/views/fills.h"

#include <QPaintEngine>
#include <algorithm>
#include <cmath>

namespace foregather::gui {
namespace {

// Pixels of the device are those of the coordinates.
bool has_pixels(const QPainter& painter) {
  const QPaintEngine* engine = painter.paintEngine();
  return engine != nullptr && engine->type() == QPaintEngine::Raster &&
         painter.device()->devicePixelRatioF() == 1 && !painter.transform().isScaling() &&
         !painter.transform().isRotating() && !painter.transform().isTranslating();
}

}  // namespace

Fills::Fills(QPainter& painter, double y, double height)
    : painter_(painter),
      y_(static_cast<int>(std::lround(y))),
      height_(static_cast<int>(std::lround(height))) {
  if (!has_pixels(painter) || height_ <= 0) return;
  row_.assign(static_cast<std::size_t>(std::max(1, painter.device()->width())), 0);
  first_ = static_cast<int>(row_.size());
}

Fills::~Fills() { row_.empty() ? paint_rectangles() : paint_row(); }

void Fills::paint_row() {
  if (first_ >= last_pixel_) return;
  const int width = last_pixel_ - first_;
  const auto begin = row_.begin() + first_, end = row_.begin() + last_pixel_;
  const bool is_whole = std::find(begin, end, 0U) == end;
  const QImage line(reinterpret_cast<const uchar*>(&*begin), width, 1, width * 4,
                    is_whole ? QImage::Format_RGB32 : QImage::Format_ARGB32_Premultiplied);
  const QPoint origin = painter_.brushOrigin();  // where textures begin
  painter_.setBrushOrigin(first_, y_);
  painter_.fillRect(QRect(first_, y_, width, height_), QBrush(line));
  painter_.setBrushOrigin(origin);
}

void Fills::paint_rectangles() {
  painter_.save();
  painter_.setPen(Qt::NoPen);
  for (const auto& [color, rects] : colors_) {
    painter_.setBrush(QColor::fromRgba(color));
    painter_.drawRects(rects.data(), static_cast<int>(rects.size()));
  }
  painter_.restore();
}

void Fills::add(double left, double right, QRgb color) {
  auto from = static_cast<int>(std::floor(left));
  int to = std::max(from + 1, static_cast<int>(std::floor(right)));
  if (!row_.empty()) {
    from = std::max(from, 0);
    to = std::min(to, static_cast<int>(row_.size()));
    if (from >= to) return;
    std::fill(row_.begin() + from, row_.begin() + to, color);
    first_ = std::min(first_, from);
    last_pixel_ = std::max(last_pixel_, to);
    return;
  }
  std::vector<QRect>& rects = of(color);
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
