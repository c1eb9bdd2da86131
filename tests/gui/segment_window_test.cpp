// Addresses over time in the real window.
#include <QApplication>
#include <QClipboard>
#include <QPainter>
#include <QTabBar>
#include <QTabWidget>
#include <QTest>
#include <QWheelEvent>
#include <algorithm>
#include <catch2/catch.hpp>

#include "gui/app/main_window.h"
#include "gui/views/picture.h"
#include "gui/views/segment_view.h"
#include "gui/views/timeline_view.h"
#include "tests/gui/paint_list.h"
#include "tests/gui/patience.h"
#include "tests/gui/saved_page.h"
#include "tests/support/places.h"

using namespace foregather;
using namespace foregather::gui;

namespace {

void open(MainWindow& window, const std::vector<std::string>& files) {
  window.resize(1280, 720);
  window.show();
  window.open(files);
  REQUIRE(QTest::qWaitFor([&] { return !window.is_loading(); }, kPatience));
  REQUIRE(window.document());
  window.run(CommandId::show_segments);
  QApplication::processEvents();
  REQUIRE(window.segments().plane().map());
}

}  // namespace

TEST_CASE("segment window: a snapshot opens as what it held and lent") {
  MainWindow window;
  open(window, {test::source_dir() + "/tests/fuzz/corpus/retry2.pickle"});
  CHECK(window.segments().plane().map()->blocks().size() == 2);
  CHECK(window.segments().plane().map()->bands().size() == 2);
}

TEST_CASE("segment window: a snapshot beside a prediction has no legend of causes") {
  MainWindow window;
  open(window, {test::source_dir() + "/traces/samples/tiny_fsdp2.toml",
                test::source_dir() + "/tests/fuzz/corpus/retry2.pickle"});
  SegmentPlane& plane = window.segments().plane();
  const auto legend = [&] {
    return plane.height() - plane.place(plane.range().begin, plane.heights().first).y();
  };
  REQUIRE(window.segments().choice().count() == 2);
  CHECK(plane.map()->knows_causes());
  CHECK(legend() > 0);
  window.segments().choice().setCurrentIndex(1);
  CHECK_FALSE(plane.map()->knows_causes());
  CHECK(legend() == 0);

  test::PaintList paper(QSize(900, 600));
  QPainter painter(&paper);
  const Document& both = *window.document();
  const ViewState view = first_view(both.session, both.lanes);
  paint_picture(painter, QSizeF(900, 600), {both, view, Theme::light()}, PictureOf::segments);
  painter.end();
  const auto says = [&](const char* words) {
    return std::ranges::count(paper.words(), std::string(words)) == 1;
  };
  CHECK(says("P: rank 0"));
  CHECK(says("M: rank 0, colours by name"));
  CHECK(says("activation"));
  CHECK_FALSE(says("unknown"));
}

TEST_CASE("segment window: a click says which allocation it is") {
  MainWindow window;
  open(window, {test::source_dir() + "/traces/samples/tiny_fsdp2.toml"});
  CHECK(window.pages().currentWidget() == &window.segments());
  SegmentPlane& plane = window.segments().plane();
  REQUIRE_FALSE(plane.map()->blocks().empty());
  // The one that a pointer meets most easily.
  const auto room = [&](const SegmentMap::Block& block) {
    const QPointF low = plane.place(block.time.begin, block.at),
                  high = plane.place(block.time.end, block.at + block.bytes);
    return std::min(high.x() - low.x(), low.y() - high.y());
  };
  const auto largest =
      std::max_element(plane.map()->blocks().begin(), plane.map()->blocks().end(),
                       [&](const auto& a, const auto& b) { return room(a) < room(b); });
  const QPointF place = (plane.place(largest->time.begin, largest->at) +
                         plane.place(largest->time.end, largest->at + largest->bytes)) /
                        2;
  QTest::mouseClick(&plane, Qt::LeftButton, {}, place.toPoint());
  REQUIRE(plane.chosen());
  CHECK(plane.map()->blocks()[*plane.chosen()].binding == largest->binding);
  CHECK_FALSE(window.segments().details().trimmed().isEmpty());
  QTest::keyClick(&plane, Qt::Key_F);
  CHECK(plane.range().length() <= 2 * largest->time.length() + 1);
  CHECK(plane.heights().first <= largest->at);
  CHECK(plane.heights().second >= largest->at + largest->bytes);
  CHECK(window.segments().details().contains("requested: "));
  window.run(CommandId::copy_table);
  CHECK(QApplication::clipboard()->text().startsWith("name,value\n"));
  CHECK(QApplication::clipboard()->text().contains("requested,"));
  QTest::keyClick(&plane, Qt::Key_Escape);
  CHECK_FALSE(plane.chosen());
  CHECK(window.segments().details().trimmed().isEmpty());
}

TEST_CASE("segment window: keys and the wheel zoom both ways, and fit comes back") {
  MainWindow window;
  open(window, {test::source_dir() + "/traces/samples/tiny_fsdp2.toml"});
  SegmentPlane& plane = window.segments().plane();
  // A click on its tab is enough for its keys.
  const QTabBar& tabs = *window.pages().tabBar();
  const auto click = [&](QWidget& page) {
    QTest::mouseClick(window.pages().tabBar(), Qt::LeftButton, {},
                      tabs.tabRect(window.pages().indexOf(&page)).center());
    QApplication::processEvents();
  };
  click(window.timeline());
  CHECK(window.timeline().hasFocus());
  click(window.segments());
  CHECK(plane.hasFocus());
  const auto all = plane.heights();
  const TimeRange range = plane.range();
  QTest::keyClick(&plane, Qt::Key_W);
  CHECK(plane.range().length() < range.length());
  CHECK(plane.heights() == all);
  const QPointF middle = plane.rect().center();
  QWheelEvent up(middle, plane.mapToGlobal(middle), {}, {0, 120}, Qt::NoButton, {},
                 Qt::NoScrollPhase, false);
  QApplication::sendEvent(&plane, &up);
  CHECK(plane.heights().second - plane.heights().first < all.second - all.first);
  const auto wheel = [&](Qt::KeyboardModifiers modifiers) {
    QWheelEvent event(middle, plane.mapToGlobal(middle), {}, {0, 120}, Qt::NoButton, modifiers,
                      Qt::NoScrollPhase, false);
    QApplication::sendEvent(&plane, &event);
  };
  const TimeRange closer = plane.range();
  wheel(Qt::ControlModifier);
  CHECK(plane.range().length() < closer.length());
  const TimeRange closest = plane.range();
  wheel(Qt::ShiftModifier);
  CHECK(plane.range().length() == closest.length());
  CHECK(plane.range().begin < closest.begin);

  // What is under the pointer goes with it.
  const TimeRange before = plane.range();
  const auto heights = plane.heights();
  QTest::mousePress(&plane, Qt::LeftButton, {}, middle.toPoint());
  QTest::mouseMove(&plane, middle.toPoint() + QPoint(-60, -30));
  QTest::mouseRelease(&plane, Qt::LeftButton, {}, middle.toPoint() + QPoint(-60, -30));
  CHECK(plane.range().begin > before.begin);
  CHECK(plane.heights().first < heights.first);
  CHECK_FALSE(plane.chosen());
  QTest::keyClick(&plane, Qt::Key_Down);
  CHECK(plane.heights().first <= heights.first);
  const TimeRange last = plane.range();
  QTest::keyClick(&plane, Qt::Key_Home);
  CHECK(plane.heights() == all);
  CHECK(plane.range() == range);
  QTest::keyClick(&plane, Qt::Key_Backspace);
  CHECK(plane.range() == last);
  QTest::keyClick(&plane, Qt::Key_W, Qt::ShiftModifier);
  CHECK(plane.range() == last);
  QTest::keyClick(&plane, Qt::Key_F, Qt::ShiftModifier);
  CHECK(plane.range() == range);
}

TEST_CASE("segment window: the saved picture is what is shown") {
  MainWindow window;
  open(window, {test::source_dir() + "/traces/samples/tiny_fsdp2.toml"});
  SegmentPlane& plane = window.segments().plane();
  const QImage all = test::saved_page(window);
  CHECK(all == test::shown(plane));
  QTest::keyClick(&plane, Qt::Key_W);
  const QImage part = test::saved_page(window);
  CHECK(part == test::shown(plane));
  CHECK(part != all);
}
