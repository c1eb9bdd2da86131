// A sweep in the real window.
#include <QApplication>
#include <QClipboard>
#include <QTabWidget>
#include <QTest>
#include <filesystem>
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
