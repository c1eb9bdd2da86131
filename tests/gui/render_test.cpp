// `foregather render`, as a user calls it.
#include <QImage>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <catch2/catch.hpp>

#include "core/base/file.h"
#include "gui/app/render.h"
#include "tests/gui/swept.h"
#include "tests/support/example_run.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"
#include "tests/support/written_run.h"

using namespace foregather;

namespace {

struct Outcome {
  int code = 0;
  std::string output;
};

Outcome printed(const std::string& command) {
  Outcome outcome;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
    outcome.output.append(buffer, got);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

Outcome rendered(const std::string& arguments, const std::string& environment = "") {
  return printed("env -u QT_QPA_PLATFORM " + environment + " " + test::program_path() + " render " +
                 arguments);
}

std::string text_of_svg(const test::Scratch& folder, const std::string& arguments) {
  const Outcome outcome = rendered(arguments + " -o " + folder.path("out.svg"));
  INFO(outcome.output);
  REQUIRE(outcome.code == 0);
  std::stringstream svg;
  svg << std::ifstream(folder.path("out.svg")).rdbuf();
  return svg.str();
}

std::string svg_of(const gui::SweepPlot& plot) {
  const test::Scratch folder;
  const std::string file = folder.path("out.svg");
  const QSizeF size(900, 500);
  REQUIRE(gui::save_picture(file, size, 1, [&](QPainter& painter) {
    gui::paint_picture(painter, size, plot, gui::Theme::light());
  }));
  return *read_file(file, MiB);
}

run::SweepPoint swept_point(std::vector<std::string> values, Ns step) {
  run::SweepPoint point;
  point.values = std::move(values);
  point.status = run::PointStatus::fits;
  point.figures.times = run::PointFigures::Times{};
  point.figures.times->step = step;
  return point;
}

std::string database(const test::Scratch& folder, const char* name) {
  return test::written(folder.path(name), test::example_run());
}

}  // namespace

TEST_CASE("render: PNG and SVG of one run and of two") {
  const test::Scratch folder;
  const std::string a = database(folder, "a.db"), b = database(folder, "b.db");
  for (const std::string view : {"timeline", "memory", "segments", "residuals", "summary"}) {
    const std::string out = folder.path("out.png");
    const bool has_axis = view != "residuals" && view != "summary";
    const Outcome outcome =
        rendered(a + " " + b + " -o " + out + " --view " + view +
                 " --size 640x360 --dark --rank 2" + (has_axis ? " --range 0..40ns" : ""));
    INFO(outcome.output);
    CHECK(outcome.code == 0);
    CHECK(outcome.output.empty());
    CHECK(QImage(QString::fromStdString(out)).size() == QSize(640, 360));
  }
  const std::string svg = text_of_svg(folder, a);
  CHECK_THAT(svg, Catch::Contains("<svg"));
  CHECK_THAT(svg, Catch::Contains("rank 2"));
}

TEST_CASE("render: a snapshot has no lanes, but memory and addresses") {
  const test::Scratch folder;
  const std::string snapshot = test::source_dir() + "/tests/fuzz/corpus/retry2.pickle";
  const std::string segments = text_of_svg(folder, snapshot + " --view segments");
  CHECK_THAT(segments, Catch::Contains("M: rank 0"));
  CHECK_THAT(segments, !Catch::Contains("No rank says"));
  CHECK_THAT(text_of_svg(folder, snapshot + " --view memory"),
             !Catch::Contains("Nothing is known of memory"));
  const std::string without = database(folder, "run.db");
  CHECK_THAT(text_of_svg(folder, without + " --view segments --rank 2"),
             Catch::Contains("No rank says where its memory lies"));
}

TEST_CASE("render: a sweep is its plot, with the points of its front") {
  const test::Scratch folder;
  const std::string sweep = test::swept(folder);
  const std::string svg = text_of_svg(folder, sweep);
  CHECK_THAT(svg, Catch::Contains("step time"));
  CHECK_THAT(svg, Catch::Contains("6 of 6"));
  CHECK(svg == text_of_svg(folder, sweep + " --view sweep"));
}

TEST_CASE("render: a sweep has a picture of the least size, too") {
  const test::Scratch folder;
  const std::string sweep = test::swept(folder);
  for (const char* size : {"200x200", "210x200", "220x200"}) {
    CAPTURE(size);
    const Outcome outcome = rendered(sweep + " --size " + size + " -o " + folder.path("least.svg"));
    CHECK(outcome.code == 0);
    CHECK(outcome.output.empty());
  }
}

TEST_CASE("render: a sweep that knows nothing of memory has its points at the foot") {
  const std::vector<run::SweepPoint> points{swept_point({""}, 7'000'000),
                                            swept_point({"links:2"}, 5'000'000)};
  run::SweepInfo info;
  info.axes = {{"what-if.scale", ",links:2"}};
  const std::string svg = svg_of({"s.db", info, points});
  CHECK_THAT(svg, Catch::Contains("reserved memory: not known"));
  CHECK_THAT(svg, Catch::Contains(">5.00 ms, not known<"));
  CHECK_THAT(svg, !Catch::Contains("1 ns"));
}

TEST_CASE("render: points of a front are told by what differs between them") {
  std::vector<run::SweepPoint> points{swept_point({"64", "none"}, 5'000'000),
                                      swept_point({"64", "full"}, 7'000'000)};
  for (run::SweepPoint& point : points) point.figures.memory = run::PointFigures::Memory{};
  points[0].figures.memory->peaks.reserved = 20 * GiB;
  points[1].figures.memory->peaks.reserved = 10 * GiB;
  run::SweepInfo info;
  info.axes = {{"parallel.world_size", "64"}, {"train.activation_checkpointing", "none,full"}};
  const std::string svg = svg_of({"s.db", info, points});
  for (const char* text : {">world_size<", ">64<", ">activation_checkpointing<", ">none<", ">full<",
                           ">5.00 ms, 20.00 GiB<"})
    CHECK_THAT(svg, Catch::Contains(text));
}

TEST_CASE("render: names of lanes have the room that they need, up to a quarter") {
  const test::Scratch folder;
  const std::string file = test::source_dir() + "/tests/golden/inputs/pipeline_two.json";
  const std::string name = ">DP rank [0]/PP rank 1, TP rank 0, dp-comm<";
  CHECK_THAT(text_of_svg(folder, file + " --size 1600x900"), Catch::Contains(name));
  CHECK_THAT(text_of_svg(folder, file + " --size 600x900"), !Catch::Contains(name));
}

TEST_CASE("render: the ranks that are asked for, in tables, too") {
  const test::Scratch folder;
  const std::string both = database(folder, "a.db") + " " + database(folder, "b.db");
  const std::string only_of_others = "layers.0.mlp";
  CHECK_THAT(text_of_svg(folder, both + " --view residuals"), Catch::Contains(only_of_others));
  CHECK_THAT(text_of_svg(folder, both + " --view residuals --rank 2"),
             !Catch::Contains(only_of_others));
  CHECK_THAT(text_of_svg(folder, both + " --view summary"), Catch::Contains("2 of 4 shown"));
  const std::string summary = text_of_svg(folder, both + " --view summary --rank 2");
  CHECK_THAT(summary, Catch::Contains("1 of 4 shown"));
  CHECK_THAT(summary, !Catch::Contains(only_of_others));
}

TEST_CASE("render: the same picture twice") {
  const test::Scratch folder;
  const std::string a = database(folder, "a.db");
  REQUIRE(rendered(a + " -o " + folder.path("1.png")).code == 0);
  REQUIRE(rendered(a + " -o " + folder.path("2.png")).code == 0);
  CHECK(QImage(QString::fromStdString(folder.path("1.png"))) ==
        QImage(QString::fromStdString(folder.path("2.png"))));
}

TEST_CASE("render: what it refuses, and how it says so") {
  const test::Scratch folder;
  const std::string a = database(folder, "a.db"), out = " -o " + folder.path("out.png");
  const auto refused = [&](const std::string& arguments, const std::string& message) {
    const Outcome outcome = rendered(arguments);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.output, Catch::Contains(message));
  };
  refused(a + out + " --size 10x10", "--size: '10x10' is no size, expected WIDTHxHEIGHT");
  refused(a + out + " --range 5..1", "--range: '5..1' is no range of time");
  refused(a + out + " --range 5..10", "--range: '5..10' is no range of time");
  refused(a + out + " --range 5s..10s", "--range: lies outside of what is drawn, from ");
  refused(a + out + " --view pie", "--view: 'pie' is no view");
  refused(a + out + " --rank x", "--rank: 'x' is no list of ranks");
  refused(a + out + " --rank 9", "has no rank 9");
  refused(a + out + " --view summary --range 0..40ns", "--range: goes with timeline, memory and");
  refused(a + out + " --view residuals --range 0..40ns", "--range: goes with timeline, memory and");
  refused(a + out + " --view sweep", "a.db: holds no sweep");
  const std::string sweep = test::swept(folder);
  refused(sweep + out + " --view memory", "is a sweep, which has no such view");
  refused(sweep + out + " --range 0..1ms", "--range: goes with runs");
  refused(sweep + " " + sweep + out, "expected one sweep, got 2");
  refused(a + out + " --dark --light", "--dark: excludes --light");
  refused(a + " -o " + folder.path("out.jpg"), "has another ending, expected .png or .svg");
  refused(folder.path("absent.db") + out, "cannot be read");
  folder.write("bad.db", "SQLite format 3");
  refused(folder.path("bad.db") + out, "bad.db");
  refused(a + " " + a + " " + a + out, "expected one or two runs, got 3");
}

TEST_CASE("render: needs no display, whatever platform Qt is told to take") {
  const test::Scratch folder;
  const std::string a = database(folder, "a.db"), out = " -o " + folder.path("out.png");
  const Outcome outcome =
      rendered(a + out, "-u DISPLAY -u WAYLAND_DISPLAY 'QT_QPA_PLATFORM=wayland;xcb'");
  INFO(outcome.output);
  CHECK(outcome.code == 0);
}

TEST_CASE("the window's options are told, and others refused, before there is one") {
  const std::string program = test::program_path();
  const std::string gui = program.substr(0, program.rfind("cli/")) + "gui/app/foregather-gui";
  const Outcome help = printed(gui + " --help");
  CHECK(help.code == 0);
  CHECK_THAT(help.output, Catch::StartsWith("usage: foregather-gui [--frame-time] [FILE...]\n"));
  const Outcome refused = printed(gui + " --frametime run.db");
  CHECK(refused.code == 2);
  CHECK(refused.output == "foregather: --frametime: is no option\n");
}

TEST_CASE("the window says what it lacks where there is no display") {
  const std::string program = test::program_path();
  const Outcome outcome =
      printed("env -u DISPLAY -u WAYLAND_DISPLAY QT_QPA_PLATFORM=xcb " +
              program.substr(0, program.rfind("cli/")) + "gui/app/foregather-gui");
  CHECK(outcome.code == 1);
  CHECK(outcome.output == "foregather: no display: log in to a desktop, or use ssh -X\n");
}

TEST_CASE("render: ranges of time") {
  CHECK(gui::parse_range("10ms..25.5ms") == gui::TimeRange{10'000'000, 25'500'000});
  CHECK(gui::parse_range("-5us..0.001s") == gui::TimeRange{-5'000, 1'000'000});
  CHECK(gui::parse_range("0..40ns") == gui::TimeRange{0, 40});
  CHECK_FALSE(gui::parse_range("5..10"));
  CHECK_FALSE(gui::parse_range("1ms"));
  CHECK_FALSE(gui::parse_range("nan..1"));
  CHECK_FALSE(gui::parse_range("0..1e300s"));
}

TEST_CASE("render: options of the program behind it") {
  const auto parsed = [](std::vector<std::string> options) {
    options.insert(options.end(), {"run.db", "--output=out.png"});
    return gui::parse_render(options);
  };
  CHECK(parsed({"--rank=0,3,12"})->ranks == std::vector<std::uint32_t>{0, 3, 12});
  CHECK(parsed({"--dark"})->dark);
  for (const auto& [option, message] :
       {std::pair("--rank=0,", "--rank: '0,' is no list of ranks, expected one such as 0,3"),
        std::pair("--colour=red", "--colour: is no option of --render"),
        std::pair("--size", "--size: needs a value after '='")}) {
    const auto refused = parsed({option});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().text() == message);
  }
}
