// Many rectangles of few colours.
#pragma once

#include <QPainter>
#include <utility>
#include <vector>

namespace foregather::gui {

/// Rectangles of a line, painted colour by colour: changing the brush costs more than a rectangle.
/// Neighbours of one colour are one.
class Fills {
 public:
  /// Between y and y + height, in whole pixels.
  Fills(QPainter& painter, double y, double height);
  /// Paints.
  ~Fills();
  Fills(const Fills&) = delete;
  Fills& operator=(const Fills&) = delete;

  /// At least a pixel wide.
  void add(double left, double right, const QColor& color);
  /// What comes next is no neighbour.
  void part() { last_ = nullptr; }

 private:
  std::vector<QRect>& of(QRgb color);

  QPainter& painter_;
  int y_, height_;
  std::vector<std::pair<QRgb, std::vector<QRect>>> colors_;
  const std::vector<QRect>* last_ = nullptr;  ///< has the neighbour
};

}  // namespace foregather::gui
