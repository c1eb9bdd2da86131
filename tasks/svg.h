// Small pictures of the report: panels with logarithmic axes, light and dark as the reader has it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace foregather::tasks {

/// A logarithmic scale: values from `least` to `most` (positive, different) lie on pixels from
/// `first` to `last`.
struct LogScale {
  double least = 1, most = 10;
  double first = 0, last = 1;

  double at(double value) const;
  /// Powers of ten; with fewer than three of them within, 2 and 5 times those, too; else all
  /// digits.
  std::vector<double> ticks() const;
};

/// The scale over all `values` that are positive, with a little room at both ends. Without two
/// different values, a decade about the one.
LogScale scale_over(const std::vector<double>& values, double first, double last);

/// "0.5", "20", "5k", "2M", "1G".
std::string tick_text(double value);

struct Point {
  double x = 0, y = 0;
};

/// Axes of one plot, at the pixels of its scales (y grows upwards: first > last).
struct Panel {
  LogScale x, y;

  Point at(double x_value, double y_value) const { return {x.at(x_value), y.at(y_value)}; }
};

/// An SVG picture. Positions are pixels from the upper left corner. Series have colours by number.
/// Texts are escaped: they may come from a table.
class Svg {
 public:
  Svg(int width, int height, std::string_view title);

  /// The frame of a panel, grid lines and labels at its ticks, its heads.
  void axes(const Panel& panel, std::string_view title, std::string_view x_title,
            std::string_view y_title);
  void line(const std::vector<Point>& points, std::size_t series, bool is_dashed = false);
  /// A thin grey line, for what is no series.
  void rule(Point from, Point to);
  void band(const std::vector<Point>& corners);
  void dot(Point at, std::size_t series, std::string_view tooltip);
  void text(Point at, std::string_view words, std::string_view anchor = "start");

  /// The whole file.
  std::string finish() const;

 private:
  std::string text_;
};

}  // namespace foregather::tasks
