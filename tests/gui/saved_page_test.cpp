// What Ctrl+E saves.
#include "tests/gui/saved_page.h"

#include <QApplication>
#include <QLineEdit>
#include <QScrollBar>
#include <QTabWidget>

#include "gui/views/residual_view.h"
#include "gui/views/summary_view.h"
#include "tests/gui/open_window.h"

using namespace foregather;
using namespace foregather::gui;
using test::Opened;
using test::slower;

TEST_CASE("saved page: the summary at its size, before the timeline was ever shown") {
  const test::Scratch folder;
  MainWindow window;
  window.resize(900, 600);
  window.show();
  window.open({test::written(folder, "a", test::example_run()),
               test::written(folder, "b", slower(test::example_run()))});
  REQUIRE(QTest::qWaitFor([&] { return window.document() != nullptr; }, kPatience));
  QApplication::processEvents();
  REQUIRE(window.pages().currentWidget() == &window.summary());
  CHECK(test::saved_page(window) == test::shown(window.summary()));
  // All of it, also where it scrolls.
  window.resize(900, 300);
  QApplication::processEvents();
  const QScrollBar& bar = *window.summary().verticalScrollBar();
  REQUIRE(bar.maximum() > 0);
  CHECK(test::saved_page(window).height() == window.summary().viewport()->height() + bar.maximum());
}

TEST_CASE("saved page: the timeline as it is scrolled, with memory or without") {
  Opened opened({test::simulated_tiny({})}, {900, 300});
  opened.window.run(CommandId::show_timeline);
  opened.timeline().scroll(0.3);
  REQUIRE(opened.timeline().view().scroll > 0);
  const QImage with_memory = test::saved_page(opened.window);
  CHECK(with_memory == test::shown(opened.timeline()));
  opened.window.run(CommandId::toggle_memory);
  REQUIRE_FALSE(opened.timeline().shows_memory());
  const QImage without = test::saved_page(opened.window);
  CHECK(without == test::shown(opened.timeline()));
  CHECK(without != with_memory);
}

TEST_CASE("saved page: the residuals that are shown, in their order") {
  Opened opened({test::example_run(), slower(test::example_run())}, {900, 500});
  opened.window.run(CommandId::show_residuals);
  QApplication::processEvents();
  ResidualView& residuals = opened.window.residuals();
  const QImage all = test::saved_page(opened.window);
  CHECK(all.size() == residuals.size());
  residuals.filter_line().setText("all_gather");
  CHECK(test::saved_page(opened.window) != all);
  residuals.filter_line().setText("");
  CHECK(test::saved_page(opened.window) == all);
}
