#include "gui/models/sweep_plot.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "gui/models/time_axis.h"

using namespace foregather;
using namespace foregather::gui;

namespace {

run::SweepPoint point(std::int64_t index, Ns step, Bytes peak, std::vector<std::string> values) {
  run::SweepPoint made;
  made.index = index;
  made.values = std::move(values);
  made.status = run::PointStatus::fits;
  made.figures.times = run::PointFigures::Times{};
  made.figures.times->step = step;
  made.figures.memory = run::PointFigures::Memory{};
  run::PointFigures::Memory& memory = *made.figures.memory;
  memory.capacity = 1000;
  memory.outside_allocator = 100;
  memory.peaks.reserved = peak;
  return made;
}

SweepPlot four_points() {
  run::SweepInfo info;
  info.source = "w.toml";
  info.source_text = "[train]";
  info.options = "--set train.seq_len=64\n--what-if scale=links:2\n--where x > 1\n";
  info.axes = {{"train.micro_batch", "1,2"}, {"hw", ",h200_sxm"}, {"what-if.reshard", ",never"}};
  info.points = 8;
  std::vector<run::SweepPoint> points{
      point(0, 300, 100, {"1", "", ""}), point(1, 100, 500, {"2", "", "never"}),
      point(2, 200, 500, {"1", "h200_sxm", "off"}), point(3, 200, 300, {"2", "h200_sxm", ""})};
  points.emplace_back().status = run::PointStatus::failed;
  points.emplace_back().status = run::PointStatus::out_of_memory;
  points.back().figures.memory = points[0].figures.memory;
  return SweepPlot("s.db", info, std::move(points));
}

}  // namespace

TEST_CASE("sweep: points that fit by time, and the front that no other one beats") {
  const SweepPlot plot = four_points();
  REQUIRE(plot.dots().size() == 4);
  CHECK(plot.dots()[0].point == 1);
  CHECK(plot.dots()[3].point == 0);
  CHECK(plot.front() == std::vector<std::size_t>{0, 1, 3});
  CHECK(plot.dots()[1].point == 3);  // of one time the one of less memory
  CHECK_FALSE(plot.dots()[2].on_front);
  CHECK(plot.limit() == 900);
  CHECK(plot.without_memory() == 1);
  CHECK(plot.failed() == 1);
}

TEST_CASE("sweep: a limit that differs between points is none") {
  auto first = point(0, 1, 1, {}), second = point(1, 2, 1, {});
  second.figures.memory->capacity = 2000;
  CHECK_FALSE(SweepPlot("s.db", {}, {first, second}).limit());
}

TEST_CASE("sweep: the settings of a point predict it again") {
  const SweepPlot plot = four_points();
  const WhatIfSource source = plot.source_of(plot.points()[1]);
  CHECK(source.is_text);
  CHECK(source.workload == "[train]");
  CHECK(source.sets == std::vector<std::string>{"train.seq_len=64", "train.micro_batch=2"});
  CHECK(source.passes == std::vector<std::string>{"scale=links:2", "reshard=never"});
  CHECK(plot.source_of(plot.points()[2]).sets.back() == "cluster.hardware=h200_sxm");
  CHECK(plot.source_of(plot.points()[2]).passes.size() == 1);
  CHECK(plot.title(plot.points()[1]) == "train.micro_batch=2 what-if.reshard=never");
}

TEST_CASE("sweep: places to pixels and back") {
  const SweepPlot plot = four_points();
  const SweepScale scale = sweep_scale(plot, 10, 20, 400, 200);
  for (std::size_t i = 0; i < plot.dots().size(); ++i) {
    const double x = scale.x(plot.dots()[i].step), y = scale.y(plot.dots()[i].peak);
    CHECK((x >= 10 && x <= 410 && y >= 20 && y <= 220));
    CHECK(dot_at(plot, scale, x + 2, y - 2, 5) == i);
  }
  CHECK(scale.y(*plot.limit()) >= 20);
  CHECK_FALSE(dot_at(plot, scale, 10, 20, 5));
}

TEST_CASE("sweep: points of one time lie in the middle of an axis that can be read") {
  const SweepPlot plot("s.db", {},
                       {point(0, 123'456'789, 100, {"1"}), point(1, 123'456'789, 200, {"2"})});
  const SweepScale scale = sweep_scale(plot, 0, 0, 1000, 200);
  CHECK(scale.x(123'456'789) == Approx(500));
  const TimeAxis axis{{scale.least_step, scale.most_step}, scale.width};
  std::vector<std::string> labels;
  for (const Tick& tick : ticks(axis, 90))
    if (!tick.label.empty()) labels.push_back(tick.label);
  CHECK(labels.size() > 3);
  for (const std::string& label : labels) CHECK(label.size() <= std::string("123.45 ms").size());
}

TEST_CASE("sweep: points of a recording have a time, and memory that is not known") {
  std::vector<run::SweepPoint> points{point(0, 300, 0, {"1"}), point(1, 100, 0, {"2"})};
  for (run::SweepPoint& each : points) each.figures.memory.reset();
  const SweepPlot plot("s.db", {}, std::move(points));
  REQUIRE(plot.dots().size() == 2);
  CHECK(plot.dots()[0].point == 1);
  CHECK_FALSE(plot.dots()[0].peak);
  CHECK(plot.front() == std::vector<std::size_t>{0});
  const SweepScale scale = sweep_scale(plot, 10, 20, 400, 200);
  CHECK_FALSE(scale.most_peak);
  CHECK(scale.y(plot.dots()[0].peak) == 220);
  CHECK(scale.x(300) > scale.x(100) + 300);
  CHECK(dot_at(plot, scale, scale.x(300), 220, 5) == 1U);
  const auto rows = plot.details(plot.points()[0]);
  CHECK(std::count(rows.begin(), rows.end(),
                   std::pair<std::string, std::string>("reserved, at most", "not known")) == 1);
}

TEST_CASE("sweep: points of the front are told by what differs between them") {
  run::SweepInfo info;
  info.axes = {{"train.micro_batch", "1,2"}, {"train.checkpointing", "full"}, {"hw", ",h200_sxm"}};
  const SweepPlot plot(
      "s.db", info,
      {point(0, 100, 300, {"2", "full", ""}), point(1, 200, 100, {"1", "full", "h200_sxm"}),
       point(2, 300, 500, {"1", "none", ""})});  // beaten
  REQUIRE(plot.front().size() == 2);
  CHECK(plot.front_axes() == std::vector<std::size_t>{0, 2});
  CHECK(plot.values(plot.points()[0], plot.front_axes()) == "2, –");
  CHECK(plot.values(plot.points()[1], plot.front_axes()) == "1, h200_sxm");
  CHECK(short_key(info.axes[0].first) == "micro_batch");
  CHECK(short_key("hw") == "hw");
}
