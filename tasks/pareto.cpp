#include "tasks/pareto.h"

#include <algorithm>
#include <set>

#include "core/base/text.h"
#include "tasks/svg.h"
#include "tasks/sweep_rows.h"

namespace foregather::tasks {
namespace {

constexpr double kMilliseconds = 1e6, kGiB = 1024.0 * 1024 * 1024;

std::string label_of(const run::SweepInfo& info, const run::SweepPoint& point) {
  std::string text;
  for (std::size_t i = 0; i < point.values.size(); ++i)
    text += fmt::format("{}={} ", info.axes[i].first, point.values[i]);
  text += "· " + format_time(point.figures.times->step);
  if (const auto size = reserved(point.figures)) text += " · " + format_bytes(*size);
  return text;
}

// The values of points against their step times.
struct Upwards {
  std::string_view title;
  std::vector<double> values;
};

Upwards upwards(const std::vector<run::SweepPoint>& front) {
  const bool has_sizes = std::ranges::all_of(
      front, [](const run::SweepPoint& point) { return reserved(point.figures).value_or(0) > 0; });
  Upwards axis{has_sizes ? "reserved memory, GiB" : "GPUs", {}};
  for (const run::SweepPoint& point : front)
    axis.values.push_back(has_sizes ? static_cast<double>(*reserved(point.figures)) / kGiB
                                    : static_cast<double>(point.figures.world_size));
  return axis;
}

}  // namespace

void PointFront::add(const run::SweepPoint& point) {
  const run::PointFigures& figures = point.figures;
  if (point.status != run::PointStatus::fits || !figures.times) return;
  const sim::Objectives objectives{figures.times->step, reserved(figures).value_or(0),
                                   figures.world_size, gpu_time_per_token(figures).value_or(0)};
  if (!front_.add(point.index, objectives)) return;
  points_.emplace(point.index, point);
  if (points_.size() <= 2 * front_.members().size() + 16) return;
  std::set<std::int64_t> members;
  for (const sim::ParetoFront::Member& member : front_.members()) members.insert(member.id);
  std::erase_if(points_, [&](const auto& each) { return !members.contains(each.first); });
}

std::vector<run::SweepPoint> PointFront::points() const {
  std::vector<run::SweepPoint> front;
  for (const sim::ParetoFront::Member& member : front_.members())
    front.push_back(points_.at(member.id));
  std::ranges::stable_sort(front, {}, [](const run::SweepPoint& point) {
    return std::pair(point.figures.times->step, point.index);
  });
  return front;
}

std::string pareto_svg(const run::SweepInfo& info, const std::vector<run::SweepPoint>& front) {
  constexpr int kWidth = 720, kHeight = 480;
  constexpr double kLeft = 70, kRight = 600, kTop = 40, kBottom = 430, kLegend = 615;
  std::vector<double> times;
  std::set<std::int64_t> worlds;
  for (const run::SweepPoint& point : front) {
    times.push_back(static_cast<double>(point.figures.times->step) / kMilliseconds);
    worlds.insert(point.figures.world_size);
  }
  const Upwards up = upwards(front);
  Svg svg(kWidth, kHeight, "Pareto front of a sweep");
  const Panel panel{scale_over(times, kLeft, kRight), scale_over(up.values, kBottom, kTop)};
  svg.axes(panel, "Points that no other one beats", "step time, ms", up.title);
  if (front.empty())
    svg.text({(kLeft + kRight) / 2, (kTop + kBottom) / 2}, "no point fits", "middle");
  const auto series = [&](std::int64_t world) {
    return static_cast<std::size_t>(std::distance(worlds.begin(), worlds.find(world)));
  };
  for (std::size_t i = 0; i < front.size(); ++i)
    if (times[i] > 0)
      svg.dot(panel.at(times[i], up.values[i]), series(front[i].figures.world_size),
              label_of(info, front[i]));
  double y = kTop;
  for (const std::int64_t world : worlds) {
    constexpr double kLine = 18;
    svg.dot({kLegend, y - 4}, series(world), "");
    svg.text({kLegend + 10, y}, fmt::format("{} GPU{}", world, world == 1 ? "" : "s"));
    y += kLine;
  }
  return svg.finish();
}

}  // namespace foregather::tasks
