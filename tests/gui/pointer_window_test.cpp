// What the pointer drags, and what is shown beside it, in the real window.
#include <QApplication>
#include <QComboBox>
#include <QDialog>
#include <QHelpEvent>
#include <QLineEdit>
#include <QToolTip>
#include <QWheelEvent>

#include "tests/gui/open_window.h"

using namespace foregather;
using namespace foregather::gui;
using test::Opened;
using test::slower;

namespace {

struct Pointer {
  explicit Pointer(TimelineView& of) : timeline(of) {}
  QPoint at(Ns time, double y = 60) const {
    const QRectF area = timeline.lanes_area();
    return QPointF(x_of(area, axis_of(area, timeline.view()), time), area.top() + y).toPoint();
  }
  void drag(Qt::MouseButton button, Qt::KeyboardModifiers modifiers, QPoint from, QPoint to) const {
    QTest::mousePress(&timeline, button, modifiers, from);
    QTest::mouseMove(&timeline, to);
    QTest::mouseRelease(&timeline, button, modifiers, to);
  }
  Ns pixel() const { return axis_of(timeline.lanes_area(), timeline.view()).pixel(); }

  TimelineView& timeline;
};

Ns middle(TimeRange range) { return range.begin + range.length() / 2; }

}  // namespace

TEST_CASE("pointer: a drag with Shift moves time with it, and no further than there is") {
  Opened opened({test::simulated_tiny({})});
  opened.key(Qt::Key_W);
  opened.key(Qt::Key_W);
  const Pointer pointer(opened.timeline());
  const TimeRange before = opened.timeline().view().range;
  const QPoint from = pointer.at(middle(before)), to = from - QPoint(100, 0);
  pointer.drag(Qt::LeftButton, Qt::ShiftModifier, from, to);
  const TimeRange after = opened.timeline().view().range;
  CHECK(after.length() == before.length());
  CHECK(std::abs(after.begin - before.begin - 100 * pointer.pixel()) <= 2 * pointer.pixel());
  CHECK_FALSE(opened.timeline().view().selection);
  for (int i = 0; i < 40; ++i)
    pointer.drag(Qt::LeftButton, Qt::ShiftModifier, from, from - QPoint(400, 0));
  CHECK(opened.timeline().view().range.end == opened.window.document()->session.extent().end);
}

TEST_CASE("pointer: a drag with the middle button zooms to what it went over, either way") {
  Opened opened({test::simulated_tiny({})});
  TimelineView& timeline = opened.timeline();
  const Pointer pointer(timeline);
  const TimeRange before = timeline.view().range;
  const Ns a = before.begin + before.length() / 4, b = before.begin + before.length() / 2;
  const Ns slack = 2 * pointer.pixel();
  QTest::mousePress(&timeline, Qt::MiddleButton, {}, pointer.at(b));
  const QColor plain = timeline.grab().toImage().pixelColor(pointer.at(middle({a, b}), 2));
  QTest::mouseMove(&timeline, pointer.at(a));
  CHECK(timeline.view().range == before);  // not before it is let go
  CHECK(timeline.grab().toImage().pixelColor(pointer.at(middle({a, b}), 2)) != plain);
  QTest::mouseRelease(&timeline, Qt::MiddleButton, {}, pointer.at(a));
  CHECK(std::abs(timeline.view().range.begin - a) <= slack);
  CHECK(std::abs(timeline.view().range.end - b) <= slack);
  const TimeRange closer = timeline.view().range;
  QTest::mouseClick(&timeline, Qt::MiddleButton, {}, pointer.at(middle(closer)));
  CHECK(timeline.view().range == closer);
  opened.key(Qt::Key_Backspace);
  CHECK(timeline.view().range == before);
}

TEST_CASE("pointer: the strip of all time moves what is shown to where it is pressed") {
  Opened opened({test::simulated_tiny({})});
  TimelineView& timeline = opened.timeline();
  for (int i = 0; i < 4; ++i) opened.key(Qt::Key_W);
  const TimeRange extent = opened.window.document()->session.extent();
  const Ns length = timeline.view().range.length();
  REQUIRE(length < extent.length() / 4);
  const QRectF strip = timeline.minimap_area();
  const auto at = [&](double share) {
    return QPointF(kGutter + share * (strip.width() - kGutter), strip.center().y()).toPoint();
  };
  const Ns slack = 4 * (extent.length() / static_cast<Ns>(strip.width()));
  const auto shows = [&](double share) {
    const Ns wanted = extent.begin + static_cast<Ns>(share * static_cast<double>(extent.length()));
    return std::abs(middle(timeline.view().range) - wanted) <= slack;
  };
  QTest::mousePress(&timeline, Qt::LeftButton, {}, at(0.3));
  CHECK(shows(0.3));
  QTest::mouseMove(&timeline, at(0.6));
  CHECK(shows(0.6));
  QTest::mouseRelease(&timeline, Qt::LeftButton, {}, at(0.7));
  CHECK(shows(0.7));
  CHECK(timeline.view().range.length() == length);
  CHECK_FALSE(timeline.view().selection);
}

TEST_CASE("pointer: a tool tip of an op has its name, its time and when it begins") {
  Opened opened({test::example_run()});
  TimelineView& timeline = opened.timeline();
  const auto tip = [&](QPoint at) {
    QHelpEvent event(QEvent::ToolTip, at, timeline.mapToGlobal(at));
    QApplication::sendEvent(&timeline, &event);
    return QToolTip::text().toStdString();
  };
  CHECK(tip(opened.place({0, SpanKind::op, 2, 0})) ==
        "r0/s1/m0/layers.0.mlp/forward/gemm/0\n20 ns from 40 ns");
  const QPoint gather = opened.place({0, SpanKind::op, 1, 0});
  CHECK(tip(gather).starts_with("r0/s1/m0/layers.0/forward/all_gather/0"));
  // Behind it by no more than a pixel, which is as good as over it; farther away there is nothing.
  const Pointer pointer(timeline);
  tip({pointer.at(opened.window.document()->session.extent().end).x() - 2, gather.y()});
  CHECK(QTest::qWaitFor([] { return !QToolTip::isVisible(); }, kPatience));
}

TEST_CASE("pointer: a mark stands over its op, in the colour of alarm") {
  Opened opened({test::example_run()});
  TimelineView& timeline = opened.timeline();
  timeline.select(Span{0, SpanKind::op, 2, 0});
  const Pointer pointer(timeline);
  const QPoint foot(pointer.at(40).x(), static_cast<int>(timeline.lanes_area().bottom()) - 2);
  const auto has_mark = [&] {
    const QImage picture = timeline.grab().toImage();
    for (int x = foot.x() - 2; x <= foot.x() + 2; ++x)
      if (picture.pixelColor(x, foot.y()).name() == Theme::light().alarm.name()) return true;
    return false;
  };
  CHECK_FALSE(has_mark());
  opened.key(Qt::Key_M);
  CHECK(has_mark());
  opened.key(Qt::Key_M);
  CHECK_FALSE(has_mark());
}

TEST_CASE("pointer: what painting took is shown where somebody asks for it") {
  Opened opened({test::example_run()});
  TimelineView& timeline = opened.timeline();
  const QImage before = timeline.grab().toImage();
  timeline.set_frame_time(true);
  timeline.update();
  const QImage after = timeline.grab().toImage();
  const QRect ruler = timeline.ruler_area().toRect();
  CHECK(before.copy(ruler) != after.copy(ruler));
  CHECK(before.copy(timeline.lanes_area().toRect()) == after.copy(timeline.lanes_area().toRect()));
  CHECK(timeline.frame_ms() >= 0);
}

TEST_CASE("window: a selected range is what the key of fitting shows") {
  Opened opened({test::example_run()});
  const Pointer pointer(opened.timeline());
  pointer.drag(Qt::LeftButton, {}, pointer.at(10), pointer.at(40));
  const auto selection = opened.timeline().view().selection;
  REQUIRE(selection);
  opened.window.run(CommandId::fit_selection);
  CHECK(opened.timeline().view().range == *selection);
  // And an op becomes such a range.
  opened.timeline().select(Span{0, SpanKind::op, 2, 0});
  opened.window.run(CommandId::range_of_selection);
  CHECK(opened.timeline().view().selection == TimeRange{40, 60});
}

TEST_CASE("window: Return in the search line goes on, with Shift back") {
  Opened opened({test::example_run()});
  opened.window.search_line().setText("gemm");
  QTest::keyClick(&opened.window.search_line(), Qt::Key_Return);
  CHECK(opened.timeline().view().selected == Span{0, SpanKind::op, 0});
  QTest::keyClick(&opened.window.search_line(), Qt::Key_Return);
  CHECK(opened.timeline().view().selected == Span{0, SpanKind::op, 2});
}

TEST_CASE("window: the boxes choose which run is above and which below") {
  Opened opened({test::example_run(), slower(test::example_run())});
  const auto box = [&](const char* name) {
    for (QComboBox* each : opened.window.findChildren<QComboBox*>())
      if (each->accessibleName() == name) return each;
    FAIL("no such box");
    return static_cast<QComboBox*>(nullptr);
  };
  QComboBox& below = *box("Run below");
  const int none = below.findData(-1);
  REQUIRE(none >= 0);
  below.setCurrentIndex(none);
  REQUIRE(QTest::qWaitFor([&] { return !opened.window.is_loading(); }, kPatience));
  CHECK(opened.window.document()->session.sides() == 1);
  QComboBox& above = *box("Run above");
  above.setCurrentIndex(above.findData(1));
  REQUIRE(QTest::qWaitFor([&] { return !opened.window.is_loading(); }, kPatience));
  REQUIRE(opened.window.document()->session.sides() == 1);
  CHECK(opened.window.document()->session.open_run(0).location == opened.files[1]);
}
