#include "tasks/svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "core/base/printable.h"

namespace foregather::tasks {
namespace {

constexpr double kRoom = 1.15;
constexpr double kTextHeight = 12;

/// Colours that colour-blind readers tell apart, on white and on near-black.
struct Palette {
  std::string_view paper, ink, grid, quiet;
  std::array<std::string_view, 7> series;
};
constexpr Palette kLight{
    "#ffffff",
    "#24292f",
    "#d8dee4",
    "#6e7781",
    {"#0072b2", "#d55e00", "#009e73", "#b0569a", "#a87800", "#2b9fd8", "#6e7781"}};
constexpr Palette kDark{
    "#0d1117",
    "#e6edf3",
    "#2b3138",
    "#8b949e",
    {"#58a6ff", "#ff8c42", "#3fc79a", "#e09ac8", "#e3b341", "#79d0ff", "#9aa4af"}};
constexpr std::size_t kSeries = kLight.series.size();

// Plain colours, not variables: not every viewer of SVG knows those.
std::string colours(const Palette& palette) {
  std::string text = fmt::format(
      "text{{fill:{1}}}.paper{{fill:{0}}}.grid{{stroke:{2}}}.rule,.frame{{stroke:{3}}}"
      ".band{{fill:{3}}}\n",
      palette.paper, palette.ink, palette.grid, palette.quiet);
  for (std::size_t i = 0; i < kSeries; ++i)
    text += fmt::format(".dot.s{0}{{fill:{1}}}.line.s{0}{{stroke:{1}}}\n", i, palette.series[i]);
  return text;
}

std::string style() {
  return fmt::format(
      "<style>\n"
      "text{{font:12px system-ui,sans-serif}}.frame,.line{{fill:none}}.band{{fill-opacity:.16}}"
      ".dot{{fill-opacity:.75}}.line{{stroke-width:1.6}}.dash{{stroke-dasharray:4 3}}\n"
      "{}@media (prefers-color-scheme: dark){{\n{}}}\n</style>\n",
      colours(kLight), colours(kDark));
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string points_text(const std::vector<Point>& points) {
  std::string text;
  for (const Point& point : points) text += fmt::format("{:.1f},{:.1f} ", point.x, point.y);
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace

double LogScale::at(double value) const {
  return first + (last - first) * std::log(value / least) / std::log(most / least);
}

std::vector<double> LogScale::ticks() const {
  const auto inside = [&](const std::vector<double>& factors) {
    std::vector<double> found;
    const int from = static_cast<int>(std::floor(std::log10(least)));
    const int to = static_cast<int>(std::ceil(std::log10(most)));
    for (int power = from; power <= to; ++power)
      for (const double factor : factors) {
        const double value = factor * std::pow(10.0, power);
        if (value >= least && value <= most) found.push_back(value);
      }
    return found;
  };
  constexpr std::size_t kEnough = 3;
  for (const std::vector<double>& factors : {std::vector<double>{1}, {1, 2, 5}})
    if (const auto found = inside(factors); found.size() >= kEnough) return found;
  return inside({1, 2, 3, 4, 5, 6, 7, 8, 9});
}

LogScale scale_over(const std::vector<double>& values, double first, double last) {
  LogScale scale{0, 0, first, last};
  for (const double value : values) {
    if (!(value > 0) || !std::isfinite(value)) continue;
    scale.least = scale.least > 0 ? std::min(scale.least, value) : value;
    scale.most = std::max(scale.most, value);
  }
  if (!(scale.most > 0)) return {1, 10, first, last};
  const double room = scale.least == scale.most ? std::sqrt(10.0) : kRoom;
  scale.least /= room;
  scale.most *= room;
  return scale;
}

std::string tick_text(double value) {
  constexpr std::pair<double, std::string_view> kUnits[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [unit, name] : kUnits)
    if (value >= unit) return fmt::format("{:.3g}{}", value / unit, name);
  return fmt::format("{:.3g}", value);
}

Svg::Svg(int width, int height, std::string_view title) {
  text_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" role=\"img\">\n<title>{2}</title>\n{3}",
      width, height, escaped(title), style());
  text_ += fmt::format("<rect class=\"paper\" width=\"{}\" height=\"{}\"/>\n", width, height);
}

void Svg::axes(const Panel& panel, std::string_view title, std::string_view x_title,
               std::string_view y_title) {
  const double left = panel.x.first, right = panel.x.last;
  const double bottom = panel.y.first, top = panel.y.last;
  const auto grid = [&](Point from, Point to) {
    text_ += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", from.x,
                         from.y, to.x, to.y);
  };
  for (const double tick : panel.x.ticks()) {
    grid({panel.x.at(tick), bottom}, {panel.x.at(tick), top});
    text({panel.x.at(tick), bottom + 1.25 * kTextHeight}, tick_text(tick), "middle");
  }
  for (const double tick : panel.y.ticks()) {
    grid({left, panel.y.at(tick)}, {right, panel.y.at(tick)});
    text({left - kTextHeight / 2, panel.y.at(tick) + kTextHeight / 3}, tick_text(tick), "end");
  }
  text_ += fmt::format(
      "<rect class=\"frame\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n",
      left, top, right - left, bottom - top);
  text({left, top - kTextHeight / 2}, title);
  if (!x_title.empty()) text({right, bottom + 2.6 * kTextHeight}, x_title, "end");
  if (!y_title.empty()) text({right, top - kTextHeight / 2}, y_title, "end");
}

void Svg::line(const std::vector<Point>& points, std::size_t series, bool is_dashed) {
  text_ += fmt::format("<polyline class=\"line{} s{}\" points=\"{}\"/>\n", is_dashed ? " dash" : "",
                       series % kSeries, points_text(points));
}

void Svg::rule(Point from, Point to) {
  text_ += fmt::format("<path class=\"rule\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", from.x,
                       from.y, to.x, to.y);
}

void Svg::band(const std::vector<Point>& corners) {
  text_ += fmt::format("<polygon class=\"band\" points=\"{}\"/>\n", points_text(corners));
}

void Svg::dot(Point at, std::size_t series, std::string_view tooltip) {
  text_ += fmt::format("<circle class=\"dot s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\">",
                       series % kSeries, at.x, at.y);
  if (!tooltip.empty()) text_ += fmt::format("<title>{}</title>", escaped(tooltip));
  text_ += "</circle>\n";
}

void Svg::text(Point at, std::string_view words, std::string_view anchor) {
  text_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", at.x, at.y,
                       anchor, escaped(words));
}

std::string Svg::finish() const { return text_ + "</svg>\n"; }

}  // namespace foregather::tasks
