// A sweep in the real window.
#include <QApplication>
#include <QClipboard>
#include <QMouseEvent>
#include <QTabWidget>
#include <QTest>
#include <QToolTip>
#include <filesystem>
#include <set>
#include <catch2/catch.hpp>

#include "core/base/file.h"
#include "gui/app/main_window.h"
#include "gui/views/sweep_view.h"
#include "gui/views/timeline_view.h"
#include "gui/views/what_if_panel.h"
#include "tests/gui/patience.h"
#include "tests/gui/saved_page.h"
#include "tests/gui/swept.h"
#include "tests/support/places.h"

using namespace foregather;
using namespace foregather::gui;

TEST_CASE("sweep window: points, keys along them, and a click that shows the schedule") {
  const test::Scratch folder;
  MainWindow window;
  window.resize(1280, 720);
  window.show();
  window.open({test::swept(folder)});
  REQUIRE(QTest::qWaitFor([&] { return window.sweep().plot() != nullptr; }, kPatience));
  SweepView& sweep = window.sweep();
  CHECK(window.pages().currentWidget() == &sweep);
  REQUIRE(sweep.plot()->dots().size() == 6);
  QTest::keyClick(&sweep, Qt::Key_Right);
  QTest::keyClick(&sweep, Qt::Key_Right);
  CHECK(sweep.current() == 1);
  QTest::keyClick(&sweep, Qt::Key_End);
  CHECK(sweep.current() == 5);
  QTest::keyClick(&sweep, Qt::Key_Up);
  REQUIRE(sweep.current());
  CHECK(sweep.plot()->dots()[*sweep.current()].on_front);
  QApplication::processEvents();
  CHECK(test::saved_page(window) == test::shown(sweep));

  window.run(CommandId::copy_table);
  const QString rows = QApplication::clipboard()->text();
  CHECK(rows.startsWith("train.micro_batch,"));
  CHECK(rows.count('\n') == 1 + std::ssize(sweep.plot()->points()));

  const SweepDot& dot = sweep.plot()->dots()[3];
  const QPointF place(sweep.scale().x(dot.step), sweep.scale().y(dot.peak));
  QTest::mouseClick(&sweep, Qt::LeftButton, {}, place.toPoint());
  REQUIRE(QTest::qWaitFor([&] { return window.document() != nullptr; }, kPatience));
  const run::RunView run = window.document()->session.run(0);
  const WhatIfFigures figures = what_if_figures(run);
  const run::SweepPoint& point =
      sweep.plot()->points()[sweep.plot()->dots()[*sweep.current()].point];
  CHECK(figures.step == point.figures.times->step);
  CHECK(figures.exposed == point.figures.times->exposed_comm);
  CHECK(figures.peak == point.figures.memory->peaks.reserved);
  CHECK(window.knobs().command_line().contains("--set train.micro_batch=" +
                                               QString::fromStdString(point.values[0])));

  window.run(CommandId::show_sweep);
  QTest::keyClick(&sweep, Qt::Key_Home);
  QTest::keyClick(&sweep, Qt::Key_Return);
  REQUIRE(QTest::qWaitFor(
      [&] {
        return !window.is_resimulating() && !window.is_loading() &&
               what_if_figures(window.document()->session.run(0)).step ==
                   sweep.plot()->dots()[0].step;
      },
      kPatience));
}

TEST_CASE("sweep window: points of one name in two sweeps are two runs") {
  const test::Scratch folder;
  const std::string samples = test::source_dir() + "/traces/samples/";
  std::filesystem::copy(samples + "configs", folder.path("configs"));
  std::string text = *read_file(samples + "tiny_fsdp2.toml", MiB);
  folder.write("plan.toml", text);
  const auto sweep_into = [&](const char* name) {
    std::filesystem::remove(folder.path(name));
    const std::string command = test::program_path() + " sweep " + folder.path("plan.toml") +
                                " --vary train.micro_batch=1,2 -o " + folder.path(name) +
                                " >/dev/null 2>&1";
    REQUIRE(std::system(command.c_str()) == 0);
    return folder.path(name);
  };
  MainWindow window;
  window.show();
  const auto check_first_point = [&](const std::string& path) {
    window.sweep().set_plot(nullptr);
    window.open({path});
    REQUIRE(QTest::qWaitFor([&] { return window.sweep().plot() != nullptr; }, kPatience));
    QTest::keyClick(&window.sweep(), Qt::Key_Home);
    QTest::keyClick(&window.sweep(), Qt::Key_Return);
    const run::SweepPoint& point = window.sweep().plot()->points()[0];
    const auto is_shown = [&] {
      if (window.is_loading() || !window.document()) return false;
      const OpenRun& top = window.document()->session.open_run(0);
      return top.location == path + ": train.micro_batch=1" &&
             what_if_figures(*top.run).peak == point.figures.memory->peaks.reserved;
    };
    CHECK(QTest::qWaitFor(is_shown, kPatience));
  };
  check_first_point(sweep_into("1.db"));
  text.replace(text.find("seq_len = 128"), 13, "seq_len = 512");
  folder.write("plan.toml", text);
  check_first_point(sweep_into("2.db"));
  check_first_point(sweep_into("1.db"));
}

TEST_CASE("sweep window: keys stop at the ends, and a tool tip has a point's settings") {
  const test::Scratch folder;
  MainWindow window;
  window.resize(1280, 720);
  window.show();
  // Each is faster than the next one, and needs more.
  const std::string path = folder.path("front.db");
  const std::string command = test::program_path() + " sweep " + test::source_dir() +
                              "/traces/samples/tiny_fsdp2.toml --vary "
                              "train.activation_checkpointing=none,full --vary "
                              "parallel.reshard_after_forward=true,false -o " +
                              path + " >/dev/null 2>&1";
  REQUIRE(std::system(command.c_str()) == 0);
  window.open({path});
  REQUIRE(QTest::qWaitFor([&] { return window.sweep().plot() != nullptr; }, kPatience));
  SweepView& sweep = window.sweep();
  const auto press = [&](Qt::Key key) {
    QTest::keyClick(&sweep, key);
    REQUIRE(sweep.current());
    return *sweep.current();
  };
  CHECK(press(Qt::Key_Left) == 0);
  CHECK(press(Qt::Key_Left) == 0);
  CHECK(press(Qt::Key_Right) == 1);
  CHECK(press(Qt::Key_Left) == 0);
  CHECK(press(Qt::Key_End) == 3);
  CHECK(press(Qt::Key_Right) == 3);
  CHECK(press(Qt::Key_X) == 3);
  REQUIRE(std::ranges::all_of(sweep.plot()->dots(), &SweepDot::on_front));
  // Up is where more memory is needed.
  const auto peak = [&] { return *sweep.plot()->dots()[*sweep.current()].peak; };
  const Bytes least = peak();
  press(Qt::Key_Up);
  CHECK(peak() > least);
  press(Qt::Key_Down);
  CHECK(peak() == least);
  press(Qt::Key_Down);
  CHECK(peak() == least);

  const SweepDot& dot = sweep.plot()->dots()[2];
  const QPointF at(sweep.scale().x(dot.step), sweep.scale().y(dot.peak));
  const auto tip_at = [&](QPointF place) {
    QMouseEvent move(QEvent::MouseMove, place, sweep.mapToGlobal(place), Qt::NoButton, Qt::NoButton,
                     {});
    QApplication::sendEvent(&sweep, &move);
    return QToolTip::text().toStdString();
  };
  const std::string text = tip_at(at);
  CHECK(text.find(sweep.plot()->points()[dot.point].values[0]) != std::string::npos);
  tip_at({3, 3});
  CHECK(QTest::qWaitFor([] { return !QToolTip::isVisible(); }, kPatience));
}
