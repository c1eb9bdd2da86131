#include "tasks/validation/nccl_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tasks/svg.h"

namespace foregather::tasks {
namespace {

constexpr std::size_t kColumns = 3, kPublished = 1, kPredicted = 0;
constexpr int kPanelWidth = 330, kPanelHeight = 220, kLegend = 28;
constexpr double kPanelLeft = 40, kPanelRight = 320, kPanelTop = 36, kPanelBottom = 192;

using Curve = std::vector<NcclRow>;

std::vector<Curve> curves_of(const std::vector<NcclRow>& rows) {
  std::vector<Curve> curves;
  for (const NcclRow& row : rows) {
    if (!row.error()) continue;
    if (curves.empty() || !are_alike(curves.back().front(), row) ||
        curves.back().front().collective != row.collective)
      curves.emplace_back();
    curves.back().push_back(row);
  }
  return curves;
}

std::string title_of(const Curve& curve) {
  const NcclRow& row = curve.front();
  std::string title = fmt::format("{}, {} × {}", row.collective, row.ranks, row.gpu);
  if (row.nodes > 1) title += fmt::format(" on {} nodes", row.nodes);
  return title;
}

void draw(Svg& svg, const Curve& curve, const Panel& panel) {
  svg.axes(panel, title_of(curve), {}, {});
  std::vector<Point> predicted;
  for (const NcclRow& row : curve) {
    const auto size = static_cast<double>(std::max<Bytes>(row.size, 1));
    svg.dot(panel.at(size, *row.published_us), kPublished, {});
    predicted.push_back(panel.at(size, *row.predicted_us));
  }
  svg.line(predicted, kPredicted);
  constexpr Bytes kAny = std::numeric_limits<Bytes>::max();
  if (const auto median = nccl_median(curve, 1 * MiB, kAny))
    svg.text({panel.x.first + 8, panel.y.last + 18},
             fmt::format("{:.0f} % from 1 MiB on", 100 * *median));
}

}  // namespace

std::string nccl_plot(const std::vector<NcclRow>& rows) {
  const std::vector<Curve> curves = curves_of(rows);
  if (curves.empty()) return {};
  std::vector<double> sizes, times;
  for (const Curve& curve : curves)
    for (const NcclRow& row : curve) {
      sizes.push_back(static_cast<double>(std::max<Bytes>(row.size, 1)));
      times.insert(times.end(), {*row.published_us, *row.predicted_us});
    }
  const std::size_t lines = (curves.size() + kColumns - 1) / kColumns;
  Svg svg(kPanelWidth * static_cast<int>(kColumns),
          kLegend + kPanelHeight * static_cast<int>(lines),
          "Time of collectives in µs over bytes, in published nccl-tests tables");
  svg.dot({kPanelLeft, 14}, kPublished, {});
  svg.text({kPanelLeft + 10, 18}, "published");
  svg.line({{kPanelLeft + 90, 14}, {kPanelLeft + 112, 14}}, kPredicted);
  svg.text({kPanelLeft + 118, 18}, "predicted; µs over bytes; the median error is that of a table");
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const double left = kPanelWidth * static_cast<double>(i % kColumns);
    const double top = kLegend + kPanelHeight * static_cast<double>(i / kColumns);
    draw(svg, curves[i],
         {scale_over(sizes, left + kPanelLeft, left + kPanelRight),
          scale_over(times, top + kPanelBottom, top + kPanelTop)});
  }
  return svg.finish();
}

}  // namespace foregather::tasks
