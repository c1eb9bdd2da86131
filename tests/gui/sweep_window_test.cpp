// A sweep in the real window.
#include <QApplication>
#include <QClipboard>
#include <QTabWidget>
#include <QTest>
#include <catch2/catch.hpp>

#include "gui/app/main_window.h"
#include "gui/views/sweep_view.h"
#include "gui/views/timeline_view.h"
#include "gui/views/what_if_panel.h"
#include "tests/gui/patience.h"
#include "tests/gui/saved_page.h"
#include "tests/gui/swept.h"

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
