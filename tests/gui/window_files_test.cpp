// What the window does with files: good and bad ones, again, several, while they change.
#include <QApplication>
#include <QComboBox>
#include <QDropEvent>
#include <QElapsedTimer>
#include <QMimeData>
#include <QSettings>
#include <algorithm>
#include <filesystem>

#include "core/store/sqlite.h"
#include "gui/views/summary_view.h"
#include "tasks/simulate.h"
#include "tests/gui/open_window.h"
#include "tests/support/places.h"
#include "tests/support/repetitions.h"

using namespace foregather;
using namespace foregather::gui;
using test::Opened;
using test::slower;
using test::written;

constexpr double kMostOfOpening = test::kSanitized ? 20'000 : 2'000;

TEST_CASE("window: a prediction of 80 layers and its measurement are soon over each other") {
  tasks::SimulateRequest request;
  request.sources.paths = {test::source_dir() + "/traces/samples/llama3_70b_fsdp2.toml"};
  auto outcome = tasks::simulate(request);
  REQUIRE(outcome);
  test::Scratch folder;
  const std::string predicted = written(folder, "predicted", outcome->run);
  const std::string measured = written(folder, "measured", slower(std::move(outcome->run)));
  MainWindow window;
  window.resize(1920, 1080);
  window.show();
  window.run(CommandId::show_timeline);
  QElapsedTimer timer;
  timer.start();
  window.open({predicted, measured});
  REQUIRE(QTest::qWaitFor([&] { return window.document() != nullptr; }, kPatience));
  window.timeline().repaint();
  const auto took = static_cast<double>(timer.nsecsElapsed()) / 1e6;
  CHECK(window.document()->session.sides() == 2);
  std::printf("two runs of 80 layers: %.0f ms until they are painted\n", took);
  CHECK(took < kMostOfOpening);  // ms: 1,000 where nothing else runs
}

TEST_CASE("window: a file that is opened again is read again") {
  Opened opened({test::example_run()});
  const auto step = [&] { return opened.window.document()->session.run(0).steps[0].end; };
  REQUIRE(step() == 150);
  const std::string other = written(opened.folder, "other", slower(test::example_run()));
  std::filesystem::rename(other, opened.files[0]);
  opened.window.open(opened.files);
  REQUIRE(QTest::qWaitFor([&] { return !opened.window.is_loading(); }, kPatience));
  CHECK(step() == 170);
  CHECK(opened.window.document()->session.sides() == 1);
}

TEST_CASE("window: the lanes of a pipeline's timeline have the names that it gives them") {
  MainWindow window;
  window.open({test::source_dir() + "/tests/golden/inputs/pipeline_two.json"});
  REQUIRE(QTest::qWaitFor([&] { return !window.is_loading(); }, kPatience));
  REQUIRE(window.document());
  std::vector<std::string> names;
  for (const Lane& lane : window.document()->lanes) names.push_back(lane.label());
  CHECK(std::ranges::count(names, std::string("DP rank [0]/PP rank 1, TP rank 0, dp-comm")) == 1);
}

TEST_CASE("window: runs of two machines are warned of, as compare does") {
  run::Run other = slower(test::example_run());
  const auto lines = [&](const char* hardware) {
    other.about.hardware = hardware;
    Opened opened({test::example_run(), other});
    std::vector<std::string> found;
    for (const Badge& badge : badges(opened.window.document()->session))
      for (const std::string& line : badge.lines)
        if (line.ends_with("of A100-SXM4-80GB: times differ by the hardware, too"))
          found.push_back(line);
    return found;
  };
  CHECK(lines("A100-SXM4-80GB").size() == 1);
  CHECK(lines("NVIDIA H100 80GB HBM3").empty());
}

TEST_CASE("window: files that are dropped on it are opened") {
  const test::Scratch folder;
  MainWindow window;
  window.show();
  QMimeData files;
  files.setUrls({QUrl::fromLocalFile(
                     QString::fromStdString(written(folder, "predicted", test::example_run()))),
                 QUrl::fromLocalFile(QString::fromStdString(
                     written(folder, "measured", slower(test::example_run())))),
                 QUrl("https://example.com/run.db")});
  QDragEnterEvent enter({10, 10}, Qt::CopyAction, &files, Qt::LeftButton, {});
  QApplication::sendEvent(&window, &enter);
  CHECK(enter.isAccepted());
  QDropEvent drop({10, 10}, Qt::CopyAction, &files, Qt::LeftButton, {});
  QApplication::sendEvent(&window, &drop);
  REQUIRE(QTest::qWaitFor([&] { return window.document() != nullptr; }, kPatience));
  CHECK(window.document()->session.sides() == 2);
  CHECK(window.document()->session.run(0).about.name == "predicted");
}

TEST_CASE("window: a third file is shown below the first") {
  Opened opened({test::example_run(), slower(test::example_run())});
  const std::string third = written(opened.folder, "third", test::example_run());
  opened.window.open({third});
  REQUIRE(QTest::qWaitFor([&] { return !opened.window.is_loading(); }, kPatience));
  CHECK(opened.window.document()->session.open_run(0).location == opened.files[0]);
  CHECK(opened.window.document()->session.open_run(1).location == third);
}

TEST_CASE("window: what cannot be opened is said, and the window lives on") {
  test::Scratch folder;
  const std::string good = written(folder, "good", test::example_run());
  folder.write("empty.db", "");
  folder.write("corrupt.db", std::string("SQLite format 3\0", 16) + std::string(5000, 'x'));
  std::string newer;
  {
    std::ifstream file(good, std::ios::binary);
    newer.assign(std::istreambuf_iterator<char>(file), {});
  }
  newer[63] = 99;  // user_version, of the header of SQLite's file format
  folder.write("newer.db", newer);
  for (const char* name : {"empty.db", "corrupt.db", "newer.db", "absent.db"}) {
    MainWindow window;
    window.show();
    window.open({folder.path(name)});
    REQUIRE(QTest::qWaitFor([&] { return !window.is_loading(); }, kPatience));
    CHECK_FALSE(window.document());
    INFO(name << ": " << window.summary().message().toStdString());
    CHECK(window.summary().message().contains(name));
    window.open({good});
    REQUIRE(QTest::qWaitFor([&] { return window.document() != nullptr; }, kPatience));
  }
}

TEST_CASE("window: of several files those that can be read are shown, the others are said") {
  test::Scratch folder;
  const std::string good = written(folder, "good", test::example_run());
  folder.write("empty.db", "");
  MainWindow window;
  window.show();
  window.open({folder.path("empty.db"), good, folder.path("absent.db")});
  REQUIRE(QTest::qWaitFor([&] { return !window.is_loading(); }, kPatience));
  REQUIRE(window.document());
  CHECK(window.document()->session.open_run(0).location == good);
  CHECK(window.status().contains("empty.db"));
  for (QWidget* dialog : QApplication::topLevelWidgets())
    if (dialog != &window) dialog->close();
}

namespace {

void close_dialogs(const MainWindow& window) {
  for (QWidget* dialog : QApplication::topLevelWidgets())
    if (dialog != &window) dialog->close();
}

std::string newer_database(test::Scratch& folder) {
  std::ifstream file(written(folder, "old.db", test::example_run()), std::ios::binary);
  std::string newer(std::istreambuf_iterator<char>(file), {});
  newer[63] = 99;  // user_version, of the header of SQLite's file format
  folder.write("newer.db", newer);
  return folder.path("newer.db");
}

}  // namespace

TEST_CASE("window: a file that cannot be read takes nothing from what is shown") {
  Opened opened({test::example_run(), slower(test::example_run())});
  opened.key(Qt::Key_W);
  const TimeRange range = opened.timeline().view().range;
  const auto document = opened.window.document();
  opened.folder.write("cut.json", "{\"traceEvents\": [");
  opened.window.open({opened.folder.path("cut.json")});
  REQUIRE(QTest::qWaitFor([&] { return !opened.window.is_loading(); }, kPatience));
  CHECK(opened.window.status().contains("cut.json"));
  CHECK(opened.window.document() == document);
  CHECK(opened.timeline().view().range == range);
  opened.window.open({newer_database(opened.folder)});
  CHECK(opened.window.status().contains("newer.db"));
  CHECK(opened.window.document() == document);
  // What can be read of several takes the place of what cannot.
  const std::string third = written(opened.folder, "third", slower(test::example_run()));
  opened.window.open({opened.folder.path("cut.json"), third});
  REQUIRE(QTest::qWaitFor(
      [&] { return !opened.window.is_loading() && opened.window.document() != document; },
      kPatience));
  CHECK(opened.window.document()->session.open_run(0).location == opened.files[0]);
  CHECK(opened.window.document()->session.open_run(1).location == third);
  // What is open already is shown when it is opened again.
  opened.window.open({opened.files[1]});
  REQUIRE(QTest::qWaitFor([&] { return !opened.window.is_loading(); }, kPatience));
  CHECK(opened.window.document()->session.open_run(1).location == opened.files[1]);
  close_dialogs(opened.window);
}

TEST_CASE("window: a run that is damaged beyond showing is not open, what was shown is") {
  Opened opened({test::example_run(), slower(test::example_run())});
  const auto document = opened.window.document();
  run::Run damaged = test::example_run();
  damaged.ops.end[2] = damaged.ops.start[2] - 1;
  const std::string path = written(opened.folder, "damaged", damaged);
  opened.folder.write("empty.db", "");
  opened.window.open({path, opened.folder.path("empty.db")});
  REQUIRE(QTest::qWaitFor([&] { return !opened.window.is_loading(); }, kPatience));
  CHECK(opened.window.document() == document);
  for (const QComboBox* box : opened.window.findChildren<QComboBox*>())
    CHECK(box->findText("damaged") == -1);
  close_dialogs(opened.window);
  // Nothing of it is in the way of what comes later.
  const std::string third = written(opened.folder, "third", slower(test::example_run()));
  opened.window.open({third});
  REQUIRE(QTest::qWaitFor([&] { return !opened.window.is_loading(); }, kPatience));
  CHECK(opened.window.document()->session.open_run(0).location == opened.files[0]);
  CHECK(opened.window.document()->session.open_run(1).location == third);
}

TEST_CASE("window: a file that cannot be read does not end the reading of another") {
  test::Scratch folder;
  const std::string good = written(folder, "good", test::example_run());
  const std::string newer = newer_database(folder);
  MainWindow window;
  window.show();
  window.open({good});
  window.open({newer});
  CHECK(window.is_loading());
  REQUIRE(QTest::qWaitFor([&] { return window.document() != nullptr; }, kPatience));
  close_dialogs(window);
}

TEST_CASE("window: a database that may only be read, or that another program writes, opens") {
  test::Scratch folder;
  const std::string path = written(folder, "good", test::example_run());
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  {
    MainWindow window;
    window.show();
    window.open({path});
    REQUIRE(QTest::qWaitFor([&] { return window.document() != nullptr; }, kPatience));
  }
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  auto other = store::Database::open_in_place(path);
  REQUIRE(other);
  REQUIRE(other->execute("BEGIN EXCLUSIVE"));
  MainWindow window;
  window.show();
  window.open({path});
  REQUIRE(QTest::qWaitFor([&] { return !window.is_loading(); }, kPatience));
  // Either it was read as it was, or the page says why not.
  CHECK((window.document() || window.summary().message().contains("good")));
}

TEST_CASE("window: what was opened last is in the menu") {
  test::Scratch folder;
  const std::string path = written(folder, "good", test::example_run());
  MainWindow window;
  window.show();
  window.open({path});
  REQUIRE(QTest::qWaitFor([&] { return window.document() != nullptr; }, kPatience));
  CHECK(QSettings().value("recent files").toStringList().front() == QString::fromStdString(path));
  // What cannot be read is not.
  window.open({folder.write("broken.json", "{")});
  REQUIRE(QTest::qWaitFor([&] { return !window.is_loading(); }, kPatience));
  CHECK(QSettings().value("recent files").toStringList().front() == QString::fromStdString(path));
}

TEST_CASE("window: a database may vanish while it is open") {
  Opened opened({test::example_run()});
  std::filesystem::remove(opened.files[0]);
  opened.key(Qt::Key_W);
  opened.window.resize(1000, 600);
  QApplication::processEvents();
  CHECK(opened.window.document());
  opened.window.open({opened.folder.path("absent.db")});
  REQUIRE(QTest::qWaitFor([&] { return !opened.window.is_loading(); }, kPatience));
  CHECK(opened.window.document());  // what was open stays
  CHECK(opened.window.status().contains("absent.db"));
}

TEST_CASE("window: loading is canceled, and closing while it loads is clean") {
  test::Scratch folder;
  const std::string path = written(folder, "good", test::simulated_tiny({}));
  {
    MainWindow window;
    window.show();
    window.open({path});
    window.cancel_loading();
    QTest::qWait(50);
    CHECK_FALSE(window.document());
    window.open({path});
    REQUIRE(QTest::qWaitFor([&] { return window.document() != nullptr; }, kPatience));
  }
  for (int i = 0; i < 5; ++i) {
    MainWindow window;
    window.show();
    window.open({path});
    window.close();
  }
}
