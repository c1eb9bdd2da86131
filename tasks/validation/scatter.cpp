#include "tasks/validation/scatter.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "tasks/svg.h"
#include "tasks/validation/markdown.h"

namespace foregather::tasks {
namespace {

constexpr int kWidth = 620, kHeight = 532;
constexpr double kLeft = 56, kRight = 600, kTop = 28, kBottom = 472;
constexpr double kBand = 0.1;

struct Sample {
  const RowResult* row;
  double published, error;

  double predicted() const { return published * (1 + error); }
};

std::string family_of(const std::string& gpu) {
  std::string family = gpu.substr(0, gpu.find_first_of("-("));
  while (!family.empty() && family.back() == ' ') family.pop_back();
  return family.empty() ? "not stated" : family;
}

/// Corners of the band about the diagonal, cut at the frame.
std::vector<Point> band_of(const Panel& panel) {
  const double least = panel.x.least, most = panel.x.most, wide = 1 + kBand, low = 1 - kBand;
  return {panel.at(least, least), panel.at(least, least * wide), panel.at(most / wide, most),
          panel.at(most, most),   panel.at(most, most * low),    panel.at(least / low, least)};
}

using Families = std::map<std::string, std::size_t>;

/// Each with its series: those of all rows, so that pictures of one table have the same colours.
Families families_of(const std::vector<RowResult>& rows) {
  Families families;
  for (const RowResult& row : rows) families.emplace(family_of(row.row.gpu), 0);
  std::size_t series = 0;
  for (auto& [name, number] : families) number = series++;
  return families;
}

void draw_legend(Svg& svg, const Families& families) {
  constexpr double kDotWidth = 10, kLetterWidth = 7.5, kGap = 16;
  double x = kLeft + kDotWidth / 2;
  for (const auto& [name, series] : families) {
    svg.dot({x, kHeight - 14}, series, {});
    svg.text({x + kDotWidth, kHeight - 10}, name);
    x += kDotWidth + kLetterWidth * static_cast<double>(name.size()) + kGap;
  }
}

std::string scatter(const std::vector<Sample>& samples, const Families& families,
                    const std::string& title, std::string_view unit) {
  if (samples.empty()) return {};
  std::vector<double> values;
  for (const Sample& sample : samples) {
    values.push_back(sample.published);
    values.push_back(sample.predicted());
  }
  const Panel panel{scale_over(values, kLeft, kRight), scale_over(values, kBottom, kTop)};
  Svg svg(kWidth, kHeight, title);
  svg.axes(panel, fmt::format("{}: predicted, {}", title, unit), fmt::format("published, {}", unit),
           "band: within 10 %");
  svg.band(band_of(panel));
  svg.rule(panel.at(panel.x.least, panel.x.least), panel.at(panel.x.most, panel.x.most));
  Families shown;
  for (const Sample& sample : samples) {
    const auto& family = *families.find(family_of(sample.row->row.gpu));
    shown.insert(family);
    svg.dot(
        panel.at(sample.published, sample.predicted()), family.second,
        fmt::format("{0}: {2:.3g} {1} published, {3:.3g} {1} predicted ({4})", sample.row->row.id,
                    unit, sample.published, sample.predicted(), signed_percent(sample.error)));
  }
  draw_legend(svg, shown);
  return svg.finish();
}

}  // namespace

std::string step_time_svg(const std::vector<RowResult>& rows) {
  std::vector<Sample> samples;
  for (const RowResult& row : rows)
    if (const auto error = row.time_error())
      samples.push_back({&row, *row.row.step_time_s, *error});
  return scatter(samples, families_of(rows), "Step time", "s");
}

std::string peak_svg(const std::vector<RowResult>& rows) {
  std::vector<Sample> samples;
  for (const RowResult& row : rows)
    if (const auto error = row.peak_error()) samples.push_back({&row, *row.row.peak_gib, *error});
  return scatter(samples, families_of(rows), "Peak memory", "GiB");
}

}  // namespace foregather::tasks
