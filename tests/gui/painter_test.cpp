// The painter's rectangles and lines against tests/gui/golden/*.txt. Whole pixels; text is left
// out, so that fonts do not matter. UPDATE_GOLDEN=1 writes them.
#include <QPainter>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <catch2/catch.hpp>

#include "gui/models/timeline_layout.h"
#include "gui/views/fills.h"
#include "gui/views/legend_painter.h"
#include "gui/views/memory_painter.h"
#include "gui/views/picture.h"
#include "gui/views/residual_painter.h"
#include "gui/views/segment_painter.h"
#include "gui/views/sweep_painter.h"
#include "gui/views/timeline_painter.h"
#include "tests/gui/paint_list.h"
#include "tests/support/example_run.h"
#include "tests/support/places.h"

using namespace foregather;
using namespace foregather::gui;

namespace {

run::Run measured_example() {
  run::Run run = test::example_run();
  run.about.kind = run::RunKind::measured;
  for (Ns* time : {&run.ops.end[2], &run.steps[0].end}) *time += 10;
  run.ops.end[0] = 120;  // computes into the gather's transfer
  run.memory[0].allocated = 1500;
  return run;
}

std::shared_ptr<const Document> document(bool is_pair) {
  std::vector<OpenRun> runs;
  runs.push_back({std::make_shared<const run::Run>(test::example_run()), "predicted.db", {}});
  if (is_pair)
    runs.push_back({std::make_shared<const run::Run>(measured_example()), "measured.db", {}});
  auto opened = Document::open(std::move(runs));
  if (!opened) FAIL(opened.error().text());
  return *opened;
}

void check_golden(const std::string& name, const std::string& text) {
  const std::string path = test::source_dir() + "/tests/gui/golden/" + name;
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::stringstream expected;
  expected << std::ifstream(path).rdbuf();
  CHECK(text == expected.str());
}

std::string painted(const Document& document, const ViewState& view, const Theme& theme) {
  test::PaintList paper(QSize(576, 300));
  QPainter painter(&paper);
  TimelinePainter().paint(painter, QRectF(0, 0, 576, 300), {document, view, theme},
                          layout(document.lanes, view));
  painter.end();
  return paper.text();
}

}  // namespace

TEST_CASE("painter: predicted above measured") {
  const auto both = document(true);
  check_golden("split.txt", painted(*both, first_view(both->session, both->lanes), Theme::light()));
}

TEST_CASE("painter: one over the other, in the dark, with what led to the selected op") {
  const auto both = document(true);
  ViewState view = first_view(both->session, both->lanes);
  view.overlay = true;
  view.selected = Span{1, SpanKind::op, 2};
  view.selection = TimeRange{10, 30};
  check_golden("overlay.txt", painted(*both, view, Theme::night()));
}

TEST_CASE("painter: zoomed out until ops fold") {
  const auto both = document(true);
  ViewState view = first_view(both->session, both->lanes);
  view.range = {-10'000, 10'000};
  check_golden("folded.txt", painted(*both, view, Theme::light()));
}

TEST_CASE("painter: memory as curves and by cause") {
  const auto both = document(true);
  ViewState view = first_view(both->session, both->lanes);
  const Theme theme = Theme::light();
  std::string text;
  for (const bool by_cause : {false, true}) {
    view.by_cause = by_cause;
    test::PaintList paper(QSize(576, 160));
    QPainter painter(&paper);
    paint_memory(painter, QRectF(0, 0, 576, 160), {*both, view, theme}, 0);
    painter.end();
    text += (by_cause ? "by cause\n" : "curves\n") + paper.text();
  }
  check_golden("memory.txt", text);
}

TEST_CASE("painter: dashed lines enclose the step that is compared, not those beside it") {
  run::Run run = test::example_run();
  run::StepInfo before = run.steps[0];
  before.kind = run::StepKind::other;
  before.number = 0;
  before.begin -= 60;
  before.end = run.steps[0].begin - 10;
  run.add(before);
  run::sort_steps(run);
  auto opened = Document::open({{std::make_shared<const run::Run>(std::move(run)), "two.db", {}}});
  REQUIRE(opened);
  ViewState view = first_view((*opened)->session, (*opened)->lanes);
  view.range = {-100, 100};
  const std::string text = painted(**opened, view, Theme::light());
  const TimeAxis axis = axis_of(QRectF(0, 0, 576, 300), view);
  const auto is_dashed_at = [&](Ns time) {
    const long x = std::lround(std::floor(x_of(QRectF(0, 0, 576, 300), axis, time)) + 0.5);
    return text.find(fmt::format("line {0},0 {0},300 #ff0072b2", x)) != text.npos;
  };
  INFO(text);
  CHECK(is_dashed_at(0));
  CHECK_FALSE(is_dashed_at(-60));
}

TEST_CASE(
    "painter: the legend of memory is of the curves that are drawn, the headroom says of what") {
  const auto both = document(true);
  ViewState view = first_view(both->session, both->lanes);
  const Theme theme = Theme::light();
  const auto words = [&] {
    test::PaintList paper(QSize(900, 200));
    QPainter painter(&paper);
    paint_legend(&painter, QRectF(0, 0, 900, 40), {*both, view, theme}, LegendOf::curves, 0);
    paint_memory(painter, QRectF(0, 40, 900, 160), {*both, view, theme}, 0);
    painter.end();
    std::string all;
    for (const std::string& word : paper.words()) all += word + "\n";
    return all;
  };
  CHECK_THAT(words(), Catch::Contains("P: reserved") && Catch::Contains("M: reserved"));
  CHECK_THAT(words(), !Catch::Contains("headroom of reserved"));
  view.show = {false, true};
  CHECK_THAT(words(), !Catch::Contains("P: reserved") && Catch::Contains("M: reserved"));
  view.by_cause = true;
  CHECK_THAT(words(), Catch::Contains("headroom of reserved"));
}

TEST_CASE("painter: every view of every size paints, and the colours are those of the theme") {
  for (const bool is_pair : {false, true}) {
    const auto open = document(is_pair);
    const ViewState view = first_view(open->session, open->lanes);
    for (const bool dark : {false, true}) {
      const Theme theme = dark ? Theme::night() : Theme::light();
      for (const QSize size : {QSize(200, 200), QSize(1280, 720)})
        for (const PictureOf what : {PictureOf::timeline, PictureOf::memory, PictureOf::segments,
                                     PictureOf::residuals, PictureOf::summary}) {
          QImage image(size, QImage::Format_RGB32);
          QPainter painter(&image);
          paint_picture(painter, size, {*open, view, theme}, what);
          painter.end();
          CHECK(image.pixelColor(size.width() - 1, size.height() - 1) == theme.ground);
        }
    }
  }
}

TEST_CASE("painter: words that have no room are elided or left out, not cut") {
  for (const bool is_pair : {false, true}) {
    const auto open = document(is_pair);
    const ViewState view = first_view(open->session, open->lanes);
    const Theme theme = Theme::light();
    for (const int width : {120, 200, 260, 400, 577, 900, 1280})
      for (const PictureOf what : {PictureOf::timeline, PictureOf::memory, PictureOf::segments,
                                   PictureOf::residuals, PictureOf::summary}) {
        test::PaintList paper(QSize(width, 500));
        QPainter painter(&paper);
        paint_picture(painter, QSizeF(width, 500), {*open, view, theme}, what);
        painter.end();
        INFO("view " << static_cast<int>(what) << ", width " << width);
        CHECK(paper.cut_words() == std::vector<std::string>());
      }
  }
}

TEST_CASE("painter: the name of an allocation that is cut by the edge is whole or absent") {
  run::Run run = test::example_run();
  run.bindings[0].address = run.segments[0].address;
  const auto open = *Document::open({{std::make_shared<const run::Run>(std::move(run)), "", {}}});
  const ViewState view = first_view(open->session, open->lanes);
  const Theme theme = Theme::light();
  const SegmentMap map(open->session, 0, *open->session.pairs()[0].sides[0]);
  bool is_named = false;
  for (Bytes low = 0; low < map.height(); low += map.height() / 100) {
    test::PaintList paper(QSize(600, 200));
    QPainter painter(&paper);
    paint_segments(painter, QRectF(0, 0, 600, 200), {*open, view, theme},
                   {map, low, low + map.height(), std::nullopt});
    painter.end();
    is_named = is_named || std::ranges::count(paper.words(), std::string("weight, unsharded")) > 0;
    CHECK(paper.cut_words() == std::vector<std::string>());
  }
  CHECK(is_named);
}

TEST_CASE("painter: words of a sweep that have no room are elided or left out, not cut") {
  run::SweepInfo info;
  info.axes = {{"train.micro_batch", "1,2"}};
  std::vector<run::SweepPoint> points(2);
  for (std::size_t i = 0; i < 2; ++i) {
    points[i].values = {std::to_string(i)};
    points[i].status = run::PointStatus::fits;
    points[i].figures.times = run::PointFigures::Times{};
    points[i].figures.times->step = 100 * kMillisecond + 10 * kMillisecond * static_cast<Ns>(i);
  }
  const SweepPlot plot("s.db", info, points);
  for (int width = 150; width < 1300; width += 17) {
    test::PaintList paper(QSize(width, 300));
    QPainter painter(&paper);
    paint_sweep(painter, QRectF(0, 0, width, 300), plot, Theme::light());
    painter.end();
    INFO("width " << width);
    CHECK(paper.cut_words() == std::vector<std::string>());
  }
}

TEST_CASE("histogram: a number that is wider than its bar is left out") {
  ErrorHistogram histogram;
  histogram.rows[10] = 1'234'567;
  test::PaintList paper(QSize(600, 160)), wide(QSize(2000, 160));
  for (test::PaintList* each : {&paper, &wide}) {
    QPainter painter(each);
    paint_histogram(painter, QRectF(0, 0, painter.device()->width(), 160), histogram,
                    Theme::light());
  }
  CHECK(std::ranges::count(paper.words(), std::string("1,234,567")) == 0);
  CHECK(std::ranges::count(wide.words(), std::string("1,234,567")) == 1);
}

TEST_CASE("theme: families differ in brightness or hue for all kinds of sight") {
  const Theme theme = Theme::light();
  for (std::size_t a = 0; a < kFamilies; ++a)
    for (std::size_t b = 0; b < a; ++b) CHECK(theme.family[a] != theme.family[b]);
  CHECK(Theme::text_on(QColor(Qt::white)) == QColor(Qt::black));
  CHECK(Theme::text_on(QColor(0xff0072b2)) == QColor(Qt::white));
  CHECK(theme.residual(0) == theme.residual(0.005));
  CHECK(theme.residual(-1) != theme.residual(1));
}

TEST_CASE("fills: a line of pixels copied down, and textures begin where they did") {
  QImage picture(40, 20, QImage::Format_RGB32);
  picture.fill(Qt::white);
  QPainter painter(&picture);
  {
    Fills fills(painter, 5, 4);
    fills.add(10, 20, qRgb(255, 0, 0));
    fills.add(25, 25.2, qRgb(0, 0, 255));
  }
  CHECK(painter.brushOrigin() == QPoint(0, 0));
  painter.end();
  for (const int y : {5, 8}) {
    CHECK(picture.pixel(9, y) == qRgb(255, 255, 255));
    CHECK(picture.pixel(10, y) == qRgb(255, 0, 0));
    CHECK(picture.pixel(19, y) == qRgb(255, 0, 0));
    CHECK(picture.pixel(22, y) == qRgb(255, 255, 255));
    CHECK(picture.pixel(25, y) == qRgb(0, 0, 255));
  }
  CHECK(picture.pixel(10, 4) == qRgb(255, 255, 255));
  CHECK(picture.pixel(10, 9) == qRgb(255, 255, 255));
}

TEST_CASE("painter: a rank of whose memory nothing is known says so, by cause, too") {
  run::Run run = test::example_run();
  run.bindings.clear();
  const auto painted_words = [](run::Run of, bool by_cause) {
    const auto open = *Document::open({{std::make_shared<const run::Run>(std::move(of)), "", {}}});
    ViewState view = first_view(open->session, open->lanes);
    view.by_cause = by_cause;
    test::PaintList paper(QSize(600, 160));
    QPainter painter(&paper);
    paint_memory(painter, QRectF(0, 0, 600, 160), {*open, view, Theme::light()}, 0);
    painter.end();
    return paper.words();
  };
  CHECK(painted_words(run, true) ==
        std::vector<std::string>{"No allocation of this rank is known"});
  CHECK(std::ranges::count(painted_words(run, false),
                           std::string("Nothing is known of this rank's memory")) == 0);
  run.memory.clear();
  CHECK(painted_words(run, false) ==
        std::vector<std::string>{"Nothing is known of this rank's memory"});
}

TEST_CASE("painter: the place that was clicked in memory is a dotted line at its time") {
  const auto open = document(false);
  ViewState view = first_view(open->session, open->lanes);
  const QRectF area(0, 0, 600, 160);
  const auto lines = [&] {
    test::PaintList paper(QSize(600, 160));
    QPainter painter(&paper);
    paint_selection(painter, area, {*open, view, Theme::light()});
    painter.end();
    return paper.text();
  };
  CHECK(lines().empty());
  view.cursor = 20;
  const long x = std::lround(std::floor(x_of(area, axis_of(area, view), 20)) + 0.5);
  CHECK_THAT(lines(), Catch::Contains(
                          fmt::format("line {0},0 {0},160 {1}", x,
                                      Theme::light().faint.name(QColor::HexArgb).toStdString())));
}

TEST_CASE("painter: a sweep of which no point fits says so") {
  const SweepPlot plot("s.db", run::SweepInfo(), {});
  test::PaintList paper(QSize(600, 300));
  QPainter painter(&paper);
  paint_sweep(painter, QRectF(0, 0, 600, 300), plot, Theme::light());
  painter.end();
  CHECK(paper.words() == std::vector<std::string>{"No point fits"});
}

TEST_CASE("painter: the allocation that is chosen has a frame, in the colour of text") {
  run::Run run = test::example_run();
  run.bindings[0].address = run.segments[0].address;
  const auto open = *Document::open({{std::make_shared<const run::Run>(std::move(run)), "", {}}});
  const ViewState view = first_view(open->session, open->lanes);
  const Theme theme = Theme::light();
  const SegmentMap map(open->session, 0, *open->session.pairs()[0].sides[0]);
  REQUIRE_FALSE(map.blocks().empty());
  const auto picture = [&](std::optional<std::size_t> chosen) {
    QImage image(600, 200, QImage::Format_RGB32);
    QPainter painter(&image);
    paint_segments(painter, QRectF(0, 0, 600, 200), {*open, view, theme},
                   {map, 0, map.height(), chosen});
    painter.end();
    int count = 0;
    for (int y = 0; y < 200; ++y)
      for (int x = 0; x < 600; ++x) count += image.pixelColor(x, y) == theme.text ? 1 : 0;
    return count;
  };
  CHECK(picture(0) > picture(std::nullopt) + 20);
}
