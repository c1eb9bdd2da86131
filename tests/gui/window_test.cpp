// The real window on the offscreen platform, driven by keys, clicks and the wheel.
#include <QApplication>
#include <QClipboard>
#include <QDialog>
#include <QFileDialog>
#include <QHelpEvent>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QNativeGestureEvent>
#include <QPointingDevice>
#include <QTabWidget>
#include <QTableView>
#include <QTimer>
#include <QToolTip>
#include <QTreeWidget>
#include <QWheelEvent>

#include "gui/views/details_panel.h"
#include "gui/views/residual_view.h"
#include "gui/views/summary_view.h"
#include "tests/gui/open_window.h"

using namespace foregather;
using namespace foregather::gui;
using test::Opened;
using test::slower;
using test::written;

namespace {

QString cell(const QTreeWidget& tree, const QString& what, int column) {
  const auto found = tree.findItems(what, Qt::MatchExactly | Qt::MatchRecursive, 0);
  return found.isEmpty() ? "absent" : found.front()->text(column);
}

}  // namespace

TEST_CASE("window: two files lie over each other, and the summary comes first") {
  Opened opened({test::example_run(), slower(test::example_run())});
  CHECK(opened.window.document()->session.sides() == 2);
  CHECK(opened.window.pages().widget(0) == &opened.window.summary());
  CHECK(opened.timeline().view().range == opened.window.document()->session.steps_of_hosts());
  CHECK(opened.window.status() == "12 ops");
}

TEST_CASE("window: keys zoom, move and come back") {
  Opened opened({test::simulated_tiny({})});
  const TimeRange first = opened.timeline().view().range;
  opened.key(Qt::Key_W);
  const TimeRange closer = opened.timeline().view().range;
  CHECK(closer.length() < first.length());
  opened.key(Qt::Key_D);
  CHECK(opened.timeline().view().range.begin > closer.begin);
  opened.key(Qt::Key_A);
  opened.key(Qt::Key_S);
  for (int i = 0; i < 5; ++i) opened.key(Qt::Key_Backspace);
  CHECK(opened.timeline().view().range == first);
  opened.key(Qt::Key_F, Qt::ShiftModifier);
  CHECK(opened.timeline().view().range == opened.window.document()->session.extent());
}

TEST_CASE("window: the wheel zooms at the pointer, scrolls and moves") {
  Opened opened({test::simulated_tiny({})}, {900, 400});
  TimelineView& timeline = opened.timeline();
  const TimeRange before = timeline.view().range;
  const QPointF at(timeline.width() * 0.6, 150);
  const Ns under = axis_of(timeline.lanes_area(), timeline.view()).time(at.x() - kGutter);
  const auto wheel = [&](int notches, Qt::KeyboardModifiers modifiers) {
    QWheelEvent event(at, timeline.mapToGlobal(at), {}, {0, 120 * notches}, Qt::NoButton, modifiers,
                      Qt::NoScrollPhase, false);
    QApplication::sendEvent(&timeline, &event);
  };
  wheel(3, Qt::ControlModifier);
  CHECK(timeline.view().range.length() < before.length());
  const Ns now = axis_of(timeline.lanes_area(), timeline.view()).time(at.x() - kGutter);
  CHECK(std::abs(now - under) <= 2 * axis_of(timeline.lanes_area(), timeline.view()).pixel());
  const Ns begin = timeline.view().range.begin;
  wheel(-1, Qt::ShiftModifier);
  CHECK(timeline.view().range.begin > begin);
  wheel(-1, {});
  const double most = timeline.rows().height - timeline.lanes_area().height();
  CHECK(timeline.view().scroll == Approx(std::clamp(48.0, 0.0, std::max(0.0, most))));

  // Both ways at once, and two fingers apart.
  const Ns from = timeline.view().range.begin;
  const double scroll = timeline.view().scroll;
  QWheelEvent diagonal(at, timeline.mapToGlobal(at), {}, {-120, 120}, Qt::NoButton, {},
                       Qt::NoScrollPhase, false);
  QApplication::sendEvent(&timeline, &diagonal);
  CHECK(timeline.view().range.begin > from);
  CHECK(timeline.view().scroll < scroll);
  const Ns length = timeline.view().range.length();
  QNativeGestureEvent pinch(Qt::ZoomNativeGesture, QPointingDevice::primaryPointingDevice(), 2, at,
                            at, timeline.mapToGlobal(at), 0.3, {});
  QApplication::sendEvent(&timeline, &pinch);
  CHECK(timeline.view().range.length() < length);
}

TEST_CASE("window: keys scroll the lanes") {
  Opened opened({test::simulated_tiny({})}, {900, 260});
  TimelineView& timeline = opened.timeline();
  const double most = timeline.rows().height - timeline.lanes_area().height();
  REQUIRE(most > 0);
  opened.key(Qt::Key_Down);
  CHECK(timeline.view().scroll > 0);
  for (int i = 0; i < 20; ++i) opened.key(Qt::Key_PageDown);
  CHECK(timeline.view().scroll == Approx(most));
  for (int i = 0; i < 20; ++i) opened.key(Qt::Key_Up);
  CHECK(timeline.view().scroll == 0);
}

TEST_CASE("window: a command is found by its words, and chosen by keys") {
  Opened opened({test::simulated_tiny({})});
  const TimeRange before = opened.timeline().view().range;
  opened.window.run(CommandId::palette);
  auto* const dialog = opened.window.findChild<QDialog*>();
  REQUIRE(dialog != nullptr);
  CHECK(dialog->windowTitle() == "Commands");
  auto* const words = dialog->findChild<QLineEdit*>();
  auto* const list = dialog->findChild<QListWidget*>();
  REQUIRE((words != nullptr && list != nullptr));
  dialog->activateWindow();
  REQUIRE(QTest::qWaitFor([&] { return words->hasFocus(); }, kPatience));
  QTest::keyClicks(words, "pin baseline");
  REQUIRE(list->currentItem() != nullptr);
  CHECK(list->currentItem()->text().startsWith("Pin baseline: compare"));
  words->clear();
  QTest::keyClicks(words, "in zoom");
  REQUIRE(list->currentItem() != nullptr);
  CHECK(list->currentItem()->text().startsWith("Zoom in"));
  words->clear();
  const int first = list->currentRow();
  QTest::keyClick(words, Qt::Key_Down);
  CHECK(list->currentRow() == first + 1);
  QTest::keyClicks(words, "in zoom");
  QTest::keyClick(words, Qt::Key_Return);
  QApplication::processEvents();
  CHECK(opened.timeline().view().range.length() < before.length());
}

TEST_CASE("window: a click selects, details say what it met, a double click zooms") {
  Opened opened({test::example_run(), slower(test::example_run())});
  const Span gemm{1, SpanKind::op, 2};
  const QPoint place = opened.place(gemm);
  QTest::mouseClick(&opened.timeline(), Qt::LeftButton, {}, place);
  REQUIRE(opened.timeline().view().selected == gemm);
  CHECK(cell(opened.window.details(), "predicted", 1) == "20 ns");
  CHECK(cell(opened.window.details(), "measured", 1) == "40 ns");
  CHECK(cell(opened.window.details(), "error", 1) == "-50.0 %");
  QTest::mouseDClick(&opened.timeline(), Qt::LeftButton, {}, place);
  CHECK(opened.timeline().view().range.length() == 80);
  opened.key(Qt::Key_BracketLeft);  // to what held it back
  CHECK(opened.timeline().view().selected == Span{1, SpanKind::op, 1});
  opened.key(Qt::Key_Escape);
  CHECK_FALSE(opened.timeline().view().selected);
}

TEST_CASE("window: a drag selects a range with totals") {
  Opened opened({test::example_run(), slower(test::example_run())});
  TimelineView& timeline = opened.timeline();
  const QRectF area = timeline.lanes_area();
  const TimeAxis axis = axis_of(area, timeline.view());
  const auto at = [&](Ns time, double y) {
    return QPointF(x_of(area, axis, time), area.top() + y).toPoint();
  };
  QTest::mousePress(&timeline, Qt::LeftButton, {}, at(0, 30));
  QTest::mouseMove(&timeline, at(40, 90));
  QTest::mouseRelease(&timeline, Qt::LeftButton, {}, at(60, 200));
  REQUIRE(timeline.view().selection);
  CHECK(std::abs(timeline.view().selection->end - 60) <= 1);
  CHECK_FALSE(timeline.view().selected_lanes.empty());
  CHECK(cell(opened.window.details(), "compute", 1) == "30 ns");
  CHECK(cell(opened.window.details(), "… exposed", 1) == "15 ns");
  CHECK(cell(opened.window.details(), "peak memory", 1) == "1.0 KiB");
  opened.window.run(CommandId::copy_table);
  const QStringList lines = QApplication::clipboard()->text().split('\n', Qt::SkipEmptyParts);
  CHECK(lines.filter("compute,30 ns,").size() == 1);
  for (const QString& line : lines) CHECK(line.count(',') == 2);
  CHECK(lines.filter("… at,").size() == 2);
  CHECK(lines.filter("… at,").front().endsWith(" ns"));
}

TEST_CASE("window: an op of a run that is hidden is jumped to where it is seen") {
  Opened opened({test::example_run(), slower(test::example_run())});
  opened.key(Qt::Key_V);
  REQUIRE(opened.timeline().view().show == std::array{true, false});
  opened.key(Qt::Key_N);  // to a measured op
  CHECK(opened.timeline().view().selected == Span{1, SpanKind::op, 2});
  CHECK(opened.timeline().view().show == std::array{true, true});
}

TEST_CASE("window: the keys of arrows go along a stream, too") {
  run::Run run = test::example_run();
  run.ops.reason[2] = run::BoundReason::stream;
  run.ops.bound_by[2] = run::OpRow(0);
  Opened opened({std::move(run)});
  opened.timeline().select(Span{0, SpanKind::op, 2});
  opened.key(Qt::Key_BracketLeft);
  CHECK(opened.timeline().view().selected == Span{0, SpanKind::op, 0});
  opened.key(Qt::Key_BracketRight);
  CHECK(opened.timeline().view().selected == Span{0, SpanKind::op, 2});
}

TEST_CASE("window: a tool tip has the whole name of a lane") {
  const std::string name = "a stream whose name says a lot, and at its end what tells it apart";
  run::Run run = test::example_run();
  run.streams[0].name = run.text(name);
  Opened opened({std::move(run)});
  TimelineView& timeline = opened.timeline();
  const auto tip = [&](double x, double y) {
    const QPoint at = QPointF(x, timeline.lanes_area().top() + y).toPoint();
    QHelpEvent event(QEvent::ToolTip, at, timeline.mapToGlobal(at));
    QApplication::sendEvent(&timeline, &event);
    return QToolTip::text().toStdString();
  };
  for (const LaneRow& row : timeline.rows().rows)
    CHECK(tip(20, row.y + row.height / 2) == opened.window.document()->lanes[row.lane].label());
  CHECK(opened.window.document()->lanes[timeline.rows().rows[1].lane].label() == name);
}

TEST_CASE("window: a drag into the memory selects no lane that is scrolled away") {
  Opened opened({test::simulated_tiny({})}, {900, 300});
  TimelineView& timeline = opened.timeline();
  opened.key(Qt::Key_Down);
  const double top = timeline.view().scroll, height = timeline.lanes_area().height();
  REQUIRE((top > 0 && top + height < timeline.rows().height));
  const auto drag = [&](double from, double to) {
    QTest::mousePress(&timeline, Qt::LeftButton, {}, QPointF(kGutter + 50, from).toPoint());
    QTest::mouseRelease(&timeline, Qt::LeftButton, {}, QPointF(kGutter + 250, to).toPoint());
    return timeline.view().selected_lanes;
  };
  std::vector<std::size_t> seen;
  for (const LaneRow& row : timeline.rows().rows)
    if (row.y < top + height && row.y + row.height > top) seen.push_back(row.lane);
  REQUIRE(seen.size() < timeline.rows().rows.size());
  CHECK(drag(timeline.ruler_area().center().y(), timeline.memory_area().bottom() - 2) == seen);
  CHECK(drag(timeline.memory_area().top() + 2, timeline.memory_area().bottom() - 2).empty());
}

TEST_CASE("window: search, and results one after the other") {
  Opened opened({test::example_run()});
  opened.window.run(CommandId::search);
  opened.window.search_line().setText("gemm");
  opened.window.run(CommandId::next_result);
  CHECK(opened.window.results() == 3);
  CHECK(opened.timeline().view().selected == Span{0, SpanKind::op, 0});
  opened.window.run(CommandId::next_result);
  CHECK(opened.timeline().view().selected == Span{0, SpanKind::op, 2});
  opened.window.run(CommandId::previous_result);
  CHECK(opened.timeline().view().selected == Span{0, SpanKind::op, 0});
}

TEST_CASE("window: letters typed into the search line stay letters") {
  Opened opened({test::example_run()});
  const TimeRange before = opened.timeline().view().range;
  opened.window.search_line().setFocus();
  QTest::keyClicks(&opened.window.search_line(), "was");
  CHECK(opened.window.search_line().text() == "was");
  CHECK(opened.timeline().view().range == before);
}

namespace {

/// Takes all keys for a line of text, as Qt does some on X11 and Wayland: none on this platform.
class TakesKeys final : public QObject {
 protected:
  bool eventFilter(QObject*, QEvent* event) override {
    if (event->type() != QEvent::ShortcutOverride) return false;
    event->accept();
    return true;
  }
};

}  // namespace

TEST_CASE("window: keys of commands are those of a line of text, too") {
  Opened opened({test::example_run()});
  QLineEdit& line = opened.window.search_line();
  TakesKeys takes_keys;
  line.installEventFilter(&takes_keys);
  line.setFocus();
  QTest::keyClicks(&line, "was");
  QTest::keyClick(&line, Qt::Key_Home);
  QTest::keyClick(&line, Qt::Key_K, Qt::ControlModifier);
  CHECK(opened.window.status().contains("cop"));  // what there is to copy
  CHECK(line.text() == "was");
  bool is_asked = false;
  QTimer asked;
  QObject::connect(&asked, &QTimer::timeout, [&] {
    auto* const dialog = qobject_cast<QFileDialog*>(QApplication::activeModalWidget());
    if (dialog == nullptr) return;
    is_asked = dialog->windowTitle() == "Save the picture";
    dialog->reject();
  });
  asked.start(10);
  QTest::keyClick(&line, Qt::Key_E, Qt::ControlModifier);
  CHECK(is_asked);
  CHECK(line.text() == "was");
  CHECK(line.cursorPosition() == 0);
  // Those of the timeline are not.
  QTest::keyClick(&line, Qt::Key_A, Qt::ControlModifier);
  CHECK(line.selectedText() == "was");
}

TEST_CASE("window: residuals jump to their ops, the largest first") {
  Opened opened({test::example_run(), slower(test::example_run())});
  opened.key(Qt::Key_N);
  CHECK(opened.timeline().view().selected == Span{1, SpanKind::op, 2});
  opened.window.run(CommandId::show_residuals);
  CHECK(opened.window.residuals().table().rowCount() == 6);
  const QModelIndex worst =
      opened.window.residuals().table().index(0, static_cast<int>(ResidualColumn::error));
  CHECK(opened.window.residuals().table().data(worst, Qt::DisplayRole).toString() == "-50.0 %");
  CHECK(opened.window.residuals().csv().contains("20,40,-20,-0.500000"));
  opened.timeline().select(std::nullopt);
  emit opened.window.residuals().rows().activated(worst);
  CHECK(opened.timeline().view().selected == Span{1, SpanKind::op, 2});
}

TEST_CASE("window: residuals of one run say what they need") {
  {
    MainWindow empty;
    CHECK(empty.residuals().nothing().text().contains("open both"));
  }
  Opened opened({test::example_run()});
  opened.window.run(CommandId::show_residuals);
  const QLabel& nothing = opened.window.residuals().nothing();
  CHECK(nothing.isVisible());
  CHECK_FALSE(opened.window.residuals().rows().isVisible());
  CHECK(nothing.text() ==
        "Residuals need a prediction and a measurement: open a measurement of this run, too");
  opened.window.open({written(opened.folder, "measured", slower(test::example_run()))});
  REQUIRE(QTest::qWaitFor([&] { return !opened.window.is_loading(); }, kPatience));
  CHECK_FALSE(nothing.isVisible());
  CHECK(opened.window.residuals().rows().isVisible());
}

TEST_CASE("window: filters of residuals are come back to") {
  Opened opened({test::example_run(), slower(test::example_run())});
  opened.window.run(CommandId::show_residuals);
  ResidualView& residuals = opened.window.residuals();
  const int all = residuals.table().rowCount();
  QTest::keyClicks(&residuals.filter_line(), "gather");
  const int some = residuals.table().rowCount();
  CHECK(some < all);
  QTest::qWait(700);  // another filter follows a pause
  QTest::keyClicks(&residuals.filter_line(), "xyz");
  CHECK(residuals.table().rowCount() == 0);
  residuals.rows().setFocus();
  QTest::keyClick(&residuals.rows(), Qt::Key_Backspace);
  CHECK(residuals.table().rowCount() == some);
  CHECK(residuals.filter_line().text() == "gather");
  QTest::keyClick(&residuals.rows(), Qt::Key_Backspace);
  CHECK(residuals.table().rowCount() == all);
  CHECK(residuals.filter_line().text().isEmpty());
}

TEST_CASE("window: one run has no sides to choose from, and is never left out") {
  Opened opened({test::example_run()});
  const double height = opened.timeline().rows().height;
  opened.key(Qt::Key_V);
  opened.key(Qt::Key_V);
  CHECK(opened.timeline().rows().height == height);
}

TEST_CASE("window: a move behind Backspace begins a step of its own") {
  Opened opened({test::example_run()});
  opened.key(Qt::Key_W);
  opened.key(Qt::Key_W);
  opened.key(Qt::Key_W);
  opened.key(Qt::Key_Backspace);
  const TimeRange before = opened.timeline().view().range;
  opened.key(Qt::Key_D);
  CHECK(opened.timeline().view().range != before);
  opened.key(Qt::Key_Backspace);
  CHECK(opened.timeline().view().range == before);
}

TEST_CASE("window: the measurement above the prediction is called so") {
  Opened opened({slower(test::example_run()), test::example_run()});
  const Residuals& residuals = *opened.window.residuals().table().residuals();
  CHECK(residuals.title(ResidualColumn::first) == "measured");
  CHECK(residuals.title(ResidualColumn::second) == "predicted");
  CHECK(residuals.csv().find("level,measured_ns,predicted_ns,") != std::string::npos);
}

TEST_CASE("window: pins, marks, sides and memory by cause") {
  Opened opened({test::example_run(), slower(test::example_run())});
  opened.timeline().select(Span{0, SpanKind::op, 4});  // of the second rank
  opened.key(Qt::Key_P);
  CHECK(opened.timeline().view().pinned == 1);
  CHECK(opened.window.document()->lanes[opened.timeline().view().order[0]].pair == 1);
  opened.key(Qt::Key_P);
  CHECK(opened.timeline().view().pinned == 0);
  CHECK(
      std::is_sorted(opened.timeline().view().order.begin(), opened.timeline().view().order.end()));
  const std::vector<std::size_t> order = opened.timeline().view().order;
  opened.key(Qt::Key_Up, Qt::ShiftModifier);
  CHECK(opened.timeline().view().order != order);
  opened.key(Qt::Key_Down, Qt::ShiftModifier);
  CHECK(opened.timeline().view().order == order);
  // Back over what was done to the lanes, to the first order.
  opened.key(Qt::Key_P);
  opened.key(Qt::Key_V);
  CHECK(opened.timeline().view().show == std::array{true, false});
  opened.key(Qt::Key_Backspace);
  CHECK(opened.timeline().view().show == std::array{true, true});
  CHECK(opened.timeline().view().pinned == 1);
  opened.key(Qt::Key_Backspace);
  CHECK(opened.timeline().view().pinned == 0);
  CHECK(opened.timeline().view().order == order);
  opened.key(Qt::Key_M);
  CHECK(opened.timeline().view().marks.size() == 1);
  opened.key(Qt::Key_M);
  CHECK(opened.timeline().view().marks.empty());
  const double both = opened.timeline().rows().height;
  opened.key(Qt::Key_V);
  CHECK(opened.timeline().rows().height < both);
  opened.key(Qt::Key_V);
  opened.key(Qt::Key_V);
  CHECK(opened.timeline().rows().height == both);
  opened.key(Qt::Key_O);
  CHECK(opened.timeline().view().overlay);
  opened.key(Qt::Key_G);
  CHECK(opened.timeline().view().by_cause);
}

TEST_CASE("window: a click on memory says who holds it") {
  Opened opened({test::example_run()});
  const QRectF area = opened.timeline().memory_area();
  const TimeAxis axis = axis_of(area, opened.timeline().view());
  QTest::mouseClick(&opened.timeline(), Qt::LeftButton, {},
                    QPointF(x_of(area, axis, 20), area.center().y()).toPoint());
  CHECK(cell(opened.window.details(), "layers.0: weight, unsharded", 1) == "1.0 KiB");
}

TEST_CASE("window: every command of the table does something or is a gesture") {
  Opened opened({test::example_run(), slower(test::example_run())});
  for (const CommandInfo& command : commands()) {
    if (command.is_gesture || command.id == CommandId::open_files ||
        command.id == CommandId::export_picture || command.id == CommandId::close_window)
      continue;
    CHECK(opened.window.can_run(command.id));
    opened.window.run(command.id);
    QApplication::processEvents();
  }
  for (QWidget* dialog : QApplication::topLevelWidgets())
    if (dialog != &opened.window) dialog->close();
}
