// Pages of the real window: the summary, the panels beside the timeline, and what is copied of
// them.
#include <QApplication>
#include <QClipboard>
#include <QDialog>
#include <QScrollBar>

#include "gui/views/summary_view.h"
#include "gui/views/what_if_panel.h"
#include "tests/gui/open_window.h"

using namespace foregather;
using namespace foregather::gui;
using test::Opened;
using test::slower;

TEST_CASE("window: badges and residuals of the summary follow keys and clicks") {
  Opened opened({test::example_run(), slower(test::example_run())});
  SummaryView& summary = opened.window.summary();
  int badges = 0;
  std::optional<Span> jumped;
  summary.on_badge = [&](const Badge&) { ++badges; };
  summary.on_jump = [&](const Span& span) { jumped = span; };
  opened.window.run(CommandId::show_summary);
  QApplication::processEvents();
  QTest::keyClick(&summary, Qt::Key_Down);
  REQUIRE(summary.current());
  REQUIRE(summary.current()->is_badge);
  QTest::keyClick(&summary, Qt::Key_Return);
  QTest::mouseClick(summary.viewport(), Qt::LeftButton, {},
                    summary.current()->box.center().toPoint());
  CHECK(badges == 2);
  CHECK_FALSE(jumped);
  QTest::keyClick(&summary, Qt::Key_End);
  REQUIRE(summary.current());
  CHECK_FALSE(summary.current()->is_badge);
  QTest::keyClick(&summary, Qt::Key_Space);
  REQUIRE(jumped);
  const Span by_key = *jumped;
  jumped.reset();
  QTest::mouseClick(summary.viewport(), Qt::LeftButton, {},
                    summary.current()->box.center().toPoint());
  CHECK(jumped == by_key);
  QTest::mouseMove(summary.viewport(), summary.current()->box.center().toPoint());
  CHECK(summary.viewport()->cursor().shape() == Qt::PointingHandCursor);
}

TEST_CASE("window: a summary that has no room scrolls, and its keys lead to what is seen") {
  Opened opened({test::example_run(), slower(test::example_run())}, {1280, 900});
  SummaryView& summary = opened.window.summary();
  opened.window.run(CommandId::show_summary);
  QApplication::processEvents();
  CHECK(summary.verticalScrollBar()->maximum() == 0);
  opened.window.resize(1280, 300);
  QApplication::processEvents();
  REQUIRE(summary.viewport()->height() < 300);
  CHECK(summary.verticalScrollBar()->maximum() > 0);
  summary.grab();
  QTest::keyClick(&summary, Qt::Key_End);
  summary.grab();
  REQUIRE(summary.current());
  CHECK_FALSE(summary.current()->is_badge);
  CHECK(summary.current()->box.top() >= 0);
  CHECK(summary.current()->box.bottom() <= summary.viewport()->height());
  CHECK(summary.verticalScrollBar()->value() > 0);
}

TEST_CASE("window: a panel stays in front while another page is shown") {
  Opened opened({test::simulated_tiny({})});
  MainWindow& window = opened.window;
  const auto is_knobs_in_front = [&] {
    QApplication::processEvents();
    return !window.knobs().visibleRegion().isEmpty();
  };
  CHECK_FALSE(is_knobs_in_front());
  const auto leave = [&] {
    for (const CommandId page : {CommandId::show_summary, CommandId::show_residuals}) {
      window.run(page);
      QApplication::processEvents();
    }
    window.run(CommandId::show_timeline);
  };
  leave();
  CHECK_FALSE(is_knobs_in_front());
  window.run(CommandId::show_knobs);
  CHECK(is_knobs_in_front());
  // Its keys turn the first knob at once.
  REQUIRE(QApplication::focusWidget() != nullptr);
  CHECK(window.knobs().isAncestorOf(QApplication::focusWidget()));
  leave();
  CHECK(is_knobs_in_front());
}

TEST_CASE("window: what is copied is what is in sight, and nothing is said so") {
  Opened opened({test::example_run()});
  MainWindow& window = opened.window;
  const auto copied = [&](CommandId page) {
    window.run(page);
    QApplication::clipboard()->setText("what was there");
    window.run(CommandId::copy_table);
    return QApplication::clipboard()->text();
  };
  CHECK(copied(CommandId::show_residuals) == "what was there");
  CHECK(window.status() == "nothing to copy: there are no residuals");
  CHECK(copied(CommandId::show_timeline) == "what was there");
  CHECK(window.status() == "nothing to copy: nothing is selected");
  CHECK(copied(CommandId::show_summary).startsWith("figure,predicted\nstep_time_ns,"));
  CHECK(window.status() == "copied the figures");
  opened.timeline().select(Span{0, SpanKind::op, 2});
  const QStringList lines = copied(CommandId::show_timeline).split('\n', Qt::SkipEmptyParts);
  CHECK(lines.front() == "name,value");
  CHECK(lines.contains("start,40 ns"));
  CHECK(lines.contains("run,\"predicted, run0\""));
  CHECK(lines.contains("duration,20 ns"));
}

TEST_CASE("window: keys go through the summary's places one by one, and stop at its ends") {
  Opened opened({test::example_run(), slower(test::example_run())}, {1280, 900});
  SummaryView& summary = opened.window.summary();
  opened.window.run(CommandId::show_summary);
  QApplication::processEvents();
  summary.grab();
  const auto place = [&] {
    REQUIRE(summary.current());
    return summary.current()->box;
  };
  const auto press = [&](Qt::Key key) {
    QTest::keyClick(&summary, key);
    return place();
  };
  const QRectF first = press(Qt::Key_Right);
  const QRectF second = press(Qt::Key_Down);
  CHECK(second != first);
  CHECK(press(Qt::Key_Up) == first);
  CHECK(press(Qt::Key_Left) == first);
  const QRectF last = press(Qt::Key_End);
  CHECK(press(Qt::Key_Right) == last);
  CHECK(press(Qt::Key_Home) == first);
  QTest::keyClick(&summary, Qt::Key_X);
  CHECK(place() == first);
  QTest::mouseMove(summary.viewport(), QPoint(summary.viewport()->width() - 2, 2));
  CHECK(summary.viewport()->cursor().shape() == Qt::ArrowCursor);
}

TEST_CASE("window: a badge of the summary opens its list") {
  Opened opened({test::example_run()});
  opened.window.run(CommandId::show_summary);
  QApplication::processEvents();
  SummaryView& summary = opened.window.summary();
  summary.grab();
  QTest::keyClick(&summary, Qt::Key_Home);
  REQUIRE(summary.current());
  REQUIRE(summary.current()->is_badge);
  QTest::keyClick(&summary, Qt::Key_Return);
  auto* const dialog = opened.window.findChild<QDialog*>();
  REQUIRE(dialog != nullptr);
  CHECK(dialog->isVisible());
  const std::vector<Badge> all = badges(opened.window.document()->session);
  CHECK(std::ranges::any_of(
      all, [&](const Badge& badge) { return dialog->windowTitle().toStdString() == badge.text; }));
  dialog->close();
}
