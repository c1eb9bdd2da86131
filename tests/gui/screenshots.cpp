// Pictures of the window for docs/gui.md: gui_screenshots OUT_DIR FILE... (./dev gui
// --screenshots).
#include <QApplication>
#include <QLineEdit>
#include <QTabWidget>
#include <QTest>
#include <cstdio>

#include "gui/app/main_window.h"
#include "gui/views/residual_view.h"
#include "gui/views/summary_view.h"
#include "gui/views/timeline_view.h"

using namespace foregather::gui;

namespace {

bool save(MainWindow& window, const QString& path) {
  QApplication::processEvents();
  const bool saved = window.grab().toImage().convertToFormat(QImage::Format_RGB888).save(path);
  std::printf("%s%s\n", path.toUtf8().constData(), saved ? "" : ": cannot be written");
  return saved;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fputs("usage: gui_screenshots OUT_DIR FILE...\n", stderr), 2;
  qputenv("QT_QPA_PLATFORM", "offscreen");
  int qt_argc = 1;
  const QApplication application(qt_argc, argv);
  const QString folder = argv[1];
  MainWindow window;
  window.resize(1280, 720);
  window.show();
  window.open({argv + 2, argv + argc});
  if (!QTest::qWaitFor([&] { return window.document() != nullptr; }, 60'000))
    return std::fprintf(stderr, "%s\n", window.status().toUtf8().constData()), 1;
  window.set_dark(false);
  bool saved = save(window, folder + "/summary.png");
  window.run(CommandId::show_timeline);
  window.timeline().show_range(window.document()->session.steps());
  saved = save(window, folder + "/timeline.png") && saved;
  window.run(CommandId::next_residual);
  window.run(CommandId::fit_selection);
  for (int i = 0; i < 6; ++i) window.run(CommandId::zoom_out);
  window.set_dark(true);
  saved = save(window, folder + "/op.png") && saved;
  window.run(CommandId::fit_all);
  window.run(CommandId::toggle_causes);
  window.run(CommandId::select_all);
  saved = save(window, folder + "/memory.png") && saved;
  window.set_dark(false);
  window.run(CommandId::show_residuals);
  saved = save(window, folder + "/residuals.png") && saved;
  return saved ? 0 : 1;
}
