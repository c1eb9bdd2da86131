// Pictures of the window for docs/gui.md: gui_screenshots OUT_DIR PLAN.db OTHER.db SWEEP.db
// WORKLOAD.toml (./dev gui --screenshots).
#include <QApplication>
#include <QComboBox>
#include <QLineEdit>
#include <QSettings>
#include <QTabWidget>
#include <QTemporaryDir>
#include <QTest>
#include <cstdio>

#include "gui/app/main_window.h"
#include "gui/views/residual_view.h"
#include "gui/views/segment_view.h"
#include "gui/views/summary_view.h"
#include "gui/views/sweep_view.h"
#include "gui/views/timeline_view.h"
#include "gui/views/what_if_panel.h"
#include "tests/gui/patience.h"

using namespace foregather::gui;

namespace {

bool save(MainWindow& window, const QString& path) {
  QApplication::processEvents();
  const bool saved = window.grab().toImage().convertToFormat(QImage::Format_RGB888).save(path);
  std::printf("%s%s\n", path.toUtf8().constData(), saved ? "" : ": cannot be written");
  return saved;
}

bool open(MainWindow& window, const std::vector<std::string>& files) {
  window.resize(1280, 720);
  window.show();
  window.open(files);
  window.set_dark(false);
  const bool opened = QTest::qWaitFor(
      [&] { return window.document() != nullptr || window.sweep().plot() != nullptr; }, kPatience);
  if (!opened) std::fprintf(stderr, "%s\n", window.status().toUtf8().constData());
  return opened;
}

bool of_two_runs(const QString& folder, const std::vector<std::string>& files) {
  MainWindow window;
  if (!open(window, files)) return false;
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
  window.run(CommandId::show_segments);
  return save(window, folder + "/segments.png") && saved;
}

bool of_knobs(const QString& folder, const std::string& workload) {
  MainWindow window;
  if (!open(window, {workload})) return false;
  window.run(CommandId::show_knobs);
  QTest::keyClick(window.knobs().knob("train.micro_batch"), Qt::Key_Up);
  auto* prefetch = qobject_cast<QComboBox*>(window.knobs().knob("parallel.backward_prefetch"));
  prefetch->setCurrentIndex(prefetch->findData("none"));
  emit prefetch->activated(prefetch->currentIndex());
  const bool turned = QTest::qWaitFor([&] { return !window.is_resimulating(); }, kPatience);
  QApplication::processEvents();
  return turned && save(window, folder + "/what-if.png");
}

bool of_sweep(const QString& folder, const std::string& sweep) {
  MainWindow window;
  if (!open(window, {sweep})) return false;
  window.sweep().setFocus();
  QTest::keyClick(&window.sweep(), Qt::Key_Up);
  QTest::keyClick(&window.sweep(), Qt::Key_Down);
  return save(window, folder + "/sweep.png");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6)
    return std::fputs("usage: gui_screenshots OUT_DIR PLAN.db OTHER.db SWEEP.db WORKLOAD.toml\n",
                      stderr),
           2;
  qputenv("QT_QPA_PLATFORM", "offscreen");
  int qt_argc = 1;
  const QApplication application(qt_argc, argv);
  const QTemporaryDir settings;
  QCoreApplication::setOrganizationName("foregather");
  QSettings::setDefaultFormat(QSettings::IniFormat);
  QSettings::setPath(QSettings::IniFormat, QSettings::UserScope, settings.path());
  const QString folder = argv[1];
  const bool runs = of_two_runs(folder, {argv[2], argv[3]});
  const bool sweep = of_sweep(folder, argv[4]);
  return of_knobs(folder, argv[5]) && runs && sweep ? 0 : 1;
}
