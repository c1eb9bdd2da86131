// The real window with runs open in it, for tests.
#pragma once

#include <QTest>
#include <string>
#include <vector>
#include <catch2/catch.hpp>

#include "gui/app/main_window.h"
#include "gui/models/navigation.h"
#include "gui/views/timeline_view.h"
#include "tests/gui/patience.h"
#include "tests/support/example_run.h"
#include "tests/support/scratch.h"
#include "tests/support/written_run.h"
#include "tests/unit/gui/opened.h"

namespace foregather::test {

using namespace foregather::gui;

inline std::string written(const Scratch& folder, const char* name, run::Run run) {
  run.about.name = name;
  return written(folder.path(name), run);
}

/// A prediction and its changed twin, open in a window that is shown.
struct Opened {
  explicit Opened(const std::vector<run::Run>& runs, QSize size = {1280, 720}) {
    window.resize(size);
    window.show();
    int number = 0;
    for (const run::Run& run : runs)
      files.push_back(written(folder, ("run" + std::to_string(number++)).c_str(), run));
    window.open(files);
    REQUIRE(QTest::qWaitFor([&] { return !window.is_loading(); }, kPatience));
    REQUIRE(window.document());
    window.run(CommandId::show_timeline);
    QApplication::processEvents();
  }
  TimelineView& timeline() { return window.timeline(); }
  void key(Qt::Key key, Qt::KeyboardModifiers modifiers = {}) {
    QTest::keyClick(&timeline(), key, modifiers);
  }
  /// Where an op is on the screen.
  QPoint place(const Span& span) {
    const auto at = window.document()->place_of(span);
    REQUIRE(at);
    const TimeRange range = range_of(window.document()->session, span);
    const QRectF area = timeline().lanes_area();
    const TimeAxis axis = axis_of(area, timeline().view());
    for (const LaneRow& row : timeline().rows().rows)
      if (row.lane == at->lane)
        return QPointF(x_of(area, axis, range.begin + range.length() / 2),
                       area.top() + row.side_y[span.side] + row.bar / 2 - timeline().view().scroll)
            .toPoint();
    FAIL("the lane is not shown");
    return {};
  }

  Scratch folder;
  std::vector<std::string> files;
  MainWindow window;
};

/// Measured, and slower than it was predicted.
inline run::Run slower(run::Run run) {
  run.about.kind = run::RunKind::measured;
  run.ops.end[2] += 20;
  run.steps[0].end += 20;
  return run;
}

}  // namespace foregather::test
