// Many rectangles of few colours.
#pragma once

#include <QPainter>
#include <utility>
#include <vector>

namespace foregather::gui {

/// Rectangles of a line, between y and y + height in whole pixels. On the screen they are a row of
/// pixels that is copied down, whatever their number; into files that have no pixels (SVG) they are
/// painted colour by colour, neighbours of one colour as one.
class Fills {
 public:
  Fills(QPainter& painter, double y, double height);
  /// Paints.
  ~Fills();
  Fills(const Fills&) = delete;
  Fills& operator=(const Fills&) = delete;

  /// At least a pixel wide.
  void add(double left, double right, QRgb color);
  /// What comes next is no neighbour.
  void part() { last_ = nullptr; }

 private:
  void paint_row();
  void paint_rectangles();
  std::vector<QRect>& of(QRgb color);

  QPainter& painter_;
  int y_, height_;
  // On the screen.
  std::vector<QRgb> row_;           ///< by pixel; 0: nothing; empty: not on the screen
  int first_ = 0, last_pixel_ = 0;  ///< of row_ that are filled
  // Into files.
  std::vector<std::pair<QRgb, std::vector<QRect>>> colors_;
  const std::vector<QRect>* last_ = nullptr;  ///< has the neighbour
};

}  // namespace foregather::gui
