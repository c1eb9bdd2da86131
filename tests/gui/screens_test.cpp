// Every page, light and dark, at 1280x720; ctest runs this at 100 % and at 200 %. Nothing that a
// widget says is cut. With FOREGATHER_SCREENS=FOLDER the pictures stay there to be looked at.
#include <QApplication>
#include <QComboBox>
#include <QLabel>
#include <QPushButton>
#include <QTabBar>
#include <QTest>
#include <QToolButton>
#include <cstdlib>
#include <catch2/catch.hpp>

#include "gui/app/main_window.h"
#include "gui/views/segment_view.h"
#include "gui/views/sweep_view.h"
#include "gui/views/timeline_view.h"
#include "gui/views/what_if_panel.h"
#include "tests/gui/patience.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"

using namespace foregather;
using namespace foregather::gui;

namespace {

const std::string kSampleFolder = test::source_dir() + "/traces/samples/";

/// Texts that have less room than they need.
QStringList cut_texts(const QWidget& window) {
  QStringList cut;
  const auto check = [&](const QWidget* widget, const QString& text) {
    if (!widget->isVisible() || text.isEmpty()) return;
    const QSize has = widget->size(), needs = widget->minimumSizeHint();
    if (has.width() < needs.width() || has.height() < needs.height())
      cut << QString("%1 has %2x%3, needs %4x%5")
                 .arg(text)
                 .arg(has.width())
                 .arg(has.height())
                 .arg(needs.width())
                 .arg(needs.height());
  };
  for (const auto* label : window.findChildren<QLabel*>())
    if (label->sizePolicy().horizontalPolicy() != QSizePolicy::Ignored) check(label, label->text());
  for (const auto* button : window.findChildren<QAbstractButton*>()) check(button, button->text());
  for (const auto* bar : window.findChildren<QTabBar*>())
    for (int tab = 0; tab < bar->count(); ++tab)
      if (bar->isVisible() && bar->isTabVisible(tab) &&
          !QRect(QPoint(), bar->size()).contains(bar->tabRect(tab)))
        cut << "tab " + bar->tabText(tab);
  return cut;
}

void look(MainWindow& window, const char* page) {
  for (const bool dark : {false, true}) {
    window.set_dark(dark);
    QApplication::processEvents();
    const QPixmap picture = window.grab();
    CHECK(picture.size() == window.size() * window.devicePixelRatioF());
    INFO(page << ": " << cut_texts(window).join("; ").toStdString());
    CHECK(cut_texts(window).isEmpty());
    const char* folder = std::getenv("FOREGATHER_SCREENS");
    if (folder == nullptr) continue;
    CHECK(picture.save(QString("%1/%2-%3-%4.png")
                           .arg(folder, page, dark ? "dark" : "light")
                           .arg(100 * window.devicePixelRatioF())));
  }
}

void opened(MainWindow& window, const std::vector<std::string>& files) {
  window.resize(1280, 720);
  window.show();
  window.open(files);
  REQUIRE(QTest::qWaitFor(
      [&] { return window.document() != nullptr || window.sweep().plot() != nullptr; }, kPatience));
}

void made(const std::string& arguments) {
  const std::string command = test::program_path() + " " + arguments + " >/dev/null 2>&1";
  INFO(command);
  REQUIRE(std::system(command.c_str()) == 0);
}

}  // namespace

TEST_CASE("screens: every page has room for what it says", "[screens]") {
  const test::Scratch folder;
  const std::string plan = folder.path("plan.db"), other = folder.path("other.db"),
                    sweep = folder.path("sweep.db"),
                    workload = kSampleFolder + "llama3_8b_fsdp2.toml";
  made("simulate " + workload + " -o " + plan);
  made("simulate " + workload + " --set train.activation_checkpointing=full -o " + other);
  made("sweep " + workload +
       " --vary train.micro_batch=1..4 --vary "
       "train.activation_checkpointing=none,full,selective:2 -o " +
       sweep);
  {
    MainWindow window;
    window.resize(1280, 720);
    window.show();
    look(window, "welcome");
    opened(window, {plan, other});
    look(window, "summary");
    window.run(CommandId::show_timeline);
    look(window, "timeline");
    window.run(CommandId::next_residual);
    window.run(CommandId::fit_selection);
    for (int i = 0; i < 6; ++i) window.run(CommandId::zoom_out);
    look(window, "op");
    window.run(CommandId::fit_all);
    window.run(CommandId::toggle_causes);
    window.run(CommandId::select_all);
    look(window, "memory");
    window.run(CommandId::show_knobs);
    look(window, "knobs");
    window.run(CommandId::show_residuals);
    look(window, "residuals");
    window.run(CommandId::show_segments);
    look(window, "segments");
  }
  {
    MainWindow window;
    opened(window, {workload});
    window.run(CommandId::show_knobs);
    QTest::keyClick(window.knobs().knob("train.micro_batch"), Qt::Key_Up);
    REQUIRE(QTest::qWaitFor([&] { return !window.is_resimulating(); }, kPatience));
    QApplication::processEvents();
    look(window, "what-if");
    window.run(CommandId::show_summary);
    look(window, "what-if-summary");
  }
  MainWindow window;
  opened(window, {sweep});
  QTest::keyClick(&window.sweep(), Qt::Key_Up);
  look(window, "sweep");
}
