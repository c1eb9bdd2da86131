// Knobs turned in the real window.
#include <QAbstractSpinBox>
#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QLineEdit>
#include <QTest>
#include <QWheelEvent>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <set>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/base/file.h"
#include "gui/app/main_window.h"
#include "gui/models/summary.h"
#include "gui/views/timeline_view.h"
#include "gui/views/what_if_panel.h"
#include "tests/gui/patience.h"
#include "tests/support/example_run.h"
#include "tests/support/places.h"
#include "tests/support/repetitions.h"
#include "tests/support/scratch.h"
#include "tests/support/written_run.h"

using namespace foregather;
using namespace foregather::gui;

namespace {

const std::string kSamples = test::source_dir() + "/traces/samples/";

/// A workload, simulated and shown.
struct Turning {
  explicit Turning(const std::string& file) {
    window.resize(1920, 1080);
    window.show();
    window.open({file});
    REQUIRE(QTest::qWaitFor([&] { return !window.is_loading(); }, kPatience));
    REQUIRE(window.document());
    window.run(CommandId::show_knobs);
    QApplication::processEvents();
  }
  void wait() {
    REQUIRE(QTest::qWaitFor([&] { return !window.is_resimulating(); }, kPatience));
    QApplication::processEvents();
  }
  template <class Editor>
  Editor& knob(const char* name) {
    auto* editor = qobject_cast<Editor*>(window.knobs().knob(name));
    REQUIRE(editor != nullptr);
    return *editor;
  }
  void choose(const char* name, const char* value) {
    auto& box = knob<QComboBox>(name);
    const int index = *value == '\0' ? 0 : box.findData(QString(value));
    REQUIRE(index >= 0);
    box.setCurrentIndex(index);
    emit box.activated(index);
  }

  MainWindow window;
};

/// A measurement of two steps, of which the last is compared.
run::Run two_steps() {
  run::Run run = test::example_run();
  run.about.kind = run::RunKind::measured;
  run.failures.clear();
  for (run::StepInfo& step : run.steps) step.kind = run::StepKind::other;
  const std::size_t steps = run.steps.size(), ops = run.ops.size();
  for (std::size_t s = 0; s < steps; ++s) {
    run::StepInfo next = run.steps[s];
    next.number = 2;
    next.begin += 1000;
    next.end += 1000;
    run.add(next);
  }
  for (std::size_t i = 0; i < ops; ++i) {
    run::OpRecord op = run.ops.at(run::OpRow(i));
    op.step = run::StepRow(op.step.row() + steps);
    for (Ns* time : {&op.issued, &op.start, &op.transfer, &op.end}) *time += 1000;
    op.bound_by = run::OpRow();
    run.add(op);
  }
  run::sort_steps(run);
  return run;
}

nlohmann::json printed_by(std::string command) {
  const std::string program = "foregather ";
  REQUIRE(command.starts_with(program));
  command = test::program_path() + " " + command.substr(program.size()) + " --json";
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
    output.append(buffer, got);
  INFO(command);
  REQUIRE(::pclose(pipe) == 0);
  return nlohmann::json::parse(output);
}

}  // namespace

TEST_CASE(
    "what-if window: a turned knob changes the picture, and the copied command says the same") {
  Turning turning(kSamples + "tiny_fsdp2.toml");
  const QImage before = turning.window.timeline().grab().toImage();
  CHECK(turning.window.document()->session.sides() == 1);
  CHECK(turning.window.difference().isEmpty());

  QTest::keyClick(&turning.knob<QAbstractSpinBox>("train.micro_batch"), Qt::Key_Up);
  turning.wait();
  turning.choose("parallel.backward_prefetch", "none");
  turning.wait();
  CHECK(turning.window.timeline().grab().toImage() != before);
  REQUIRE(turning.window.document()->session.sides() == 2);  // over the baseline
  CHECK(turning.window.difference().contains("step "));

  turning.window.run(CommandId::copy_command);
  const std::string command = QApplication::clipboard()->text().toStdString();
  CHECK(command == "foregather simulate " + kSamples +
                       "tiny_fsdp2.toml --set train.micro_batch=4 --set "
                       "parallel.backward_prefetch=none");
  const nlohmann::json cli = printed_by(command);
  const WhatIfFigures figures = what_if_figures(turning.window.document()->session.run(0));
  CHECK(figures.step == cli["step_time_ns"].get<std::int64_t>());
  CHECK(figures.exposed == cli["exposed_comm_ns"].get<std::int64_t>());
  CHECK(figures.peak == cli["peak_reserved_bytes"].get<std::int64_t>());
  CHECK(five_figures(turning.window.document()->session)[0].value[0] == figures.step);

  turning.window.run(CommandId::reset_knobs);
  turning.wait();
  CHECK(turning.window.document()->session.sides() == 1);
  CHECK(turning.window.timeline().grab().toImage() == before);
}

// Milliseconds: 100 where nothing else runs.
constexpr double kMostOfTurn = test::kSanitized ? 4000 : 200;

TEST_CASE("what-if window: 80 layers are simulated and painted again while a knob is turned") {
  Turning turning(kSamples + "llama3_70b_fsdp2.toml");
  std::vector<double> times;
  const std::array values{"none", "post", ""};
  for (int i = 0; i < test::repetitions(8); ++i) {
    turning.choose("parallel.backward_prefetch", values[static_cast<std::size_t>(i) % 3]);
    turning.wait();
    times.push_back(turning.window.redraw_ms());
  }
  std::sort(times.begin(), times.end());
  std::printf("a knob of an 80-layer step: least %.0f ms, median %.0f ms until it is painted\n",
              times.front(), times[times.size() / 2]);
  CHECK(times.front() < kMostOfTurn);
}

TEST_CASE("what-if window: of knobs turned in quick succession the last one is shown") {
  Turning turning(kSamples + "tiny_fsdp2.toml");
  auto& box = turning.knob<QAbstractSpinBox>("train.micro_batch");
  for (int i = 0; i < 5; ++i) QTest::keyClick(&box, Qt::Key_Up);
  for (int i = 0; i < 2; ++i) QTest::keyClick(&box, Qt::Key_Down);
  CHECK(box.text().toStdString() == "16");
  turning.wait();
  const nlohmann::json cli =
      printed_by("foregather simulate " + kSamples + "tiny_fsdp2.toml --set train.micro_batch=16");
  CHECK(what_if_figures(turning.window.document()->session.run(0)).step ==
        cli["step_time_ns"].get<std::int64_t>());
}

TEST_CASE(
    "what-if window: the view stays while knobs are turned, the baseline where it is pinned") {
  Turning turning(kSamples + "tiny_fsdp2.toml");
  turning.window.timeline().zoom(0.5);
  const TimeRange range = turning.window.timeline().view().range;
  QTest::keyClick(&turning.knob<QAbstractSpinBox>("scale=links:"), Qt::Key_Down);
  turning.wait();
  CHECK(turning.window.timeline().view().range == range);
  CHECK_FALSE(turning.window.difference().isEmpty());
  turning.window.run(CommandId::pin_baseline);
  CHECK(turning.window.difference().isEmpty());
  turning.wait();
  // What lies below is what was pinned, not the run as it was opened.
  const Session& pinned = turning.window.document()->session;
  REQUIRE(pinned.sides() == 2);
  CHECK(pinned.run(1).steps.front().end == pinned.run(0).steps.front().end);
  turning.window.run(CommandId::reset_knobs);
  turning.wait();
  CHECK_FALSE(turning.window.difference().isEmpty());
  CHECK(turning.window.document()->session.sides() == 2);
}

TEST_CASE("what-if window: what cannot be simulated is said, and the picture stays") {
  Turning turning(kSamples + "tiny_fsdp2.toml");
  const auto document = turning.window.document();
  auto& box = turning.knob<QAbstractSpinBox>("train.micro_batch");
  QTest::keyClicks(&box, "many");
  QTest::keyClick(&box, Qt::Key_Return);
  turning.wait();
  CHECK(turning.window.knobs().message().contains("train.micro_batch"));
  CHECK(turning.window.document() == document);
  // Its command would be refused, too.
  QApplication::clipboard()->setText("what was there");
  turning.window.run(CommandId::copy_command);
  CHECK(QApplication::clipboard()->text() == "what was there");
  CHECK(turning.window.status().contains("nothing is copied"));
  turning.window.run(CommandId::reset_knobs);
  turning.wait();
  turning.window.run(CommandId::copy_command);
  CHECK(QApplication::clipboard()->text().startsWith("foregather simulate "));
}

TEST_CASE("what-if window: with nothing open there is no command to copy") {
  MainWindow window;
  window.show();
  QApplication::clipboard()->setText("what was there");
  window.run(CommandId::copy_command);
  CHECK(QApplication::clipboard()->text() == "what was there");
  CHECK(window.status() == "nothing to copy");
}

TEST_CASE("what-if window: a range that a turned knob took away is not gone back to") {
  Turning turning(kSamples + "tiny_fsdp2.toml");
  const TimeRange whole = turning.window.document()->session.extent();
  auto& box = turning.knob<QAbstractSpinBox>("train.micro_batch");
  for (int i = 0; i < 4; ++i) QTest::keyClick(&box, Qt::Key_Up);
  turning.wait();
  const TimeRange longer = turning.window.document()->session.extent();
  REQUIRE(longer.end > whole.end);
  turning.window.timeline().show_range({longer.end - longer.length() / 10, longer.end});
  turning.window.timeline().show_range({0, longer.length() / 10});
  turning.window.run(CommandId::reset_knobs);
  turning.wait();
  REQUIRE(turning.window.document()->session.extent() == whole);
  turning.window.run(CommandId::go_back);
  const TimeRange range = turning.window.timeline().view().range;
  CHECK(range.end <= whole.end);
  CHECK(range.begin < range.end);
}

TEST_CASE(
    "what-if window: a file that changed is turned as it was read, until it is opened again") {
  const test::Scratch folder;
  std::filesystem::copy(kSamples + "configs", folder.path("configs"));
  std::string text = *read_file(kSamples + "tiny_fsdp2.toml", MiB);
  const std::string file = folder.write("plan.toml", text);
  Turning turning(file);
  const auto peak = [&](std::size_t side) {
    return what_if_figures(turning.window.document()->session.run(side)).peak;
  };
  const auto predicted = [&](const std::string& options) {
    return printed_by("foregather simulate " + file + options)["peak_reserved_bytes"].get<Bytes>();
  };
  const std::string twice = " --set train.micro_batch=4";
  const Bytes before = predicted(""), twice_before = predicted(twice);
  text.replace(text.find("seq_len = 128"), 13, "seq_len = 512");
  folder.write("plan.toml", text);
  const Bytes after = predicted(""), twice_after = predicted(twice);
  REQUIRE(std::set<Bytes>{before, twice_before, after, twice_after}.size() == 4);

  QTest::keyClick(&turning.knob<QAbstractSpinBox>("train.micro_batch"), Qt::Key_Up);
  turning.wait();
  CHECK(peak(0) == twice_before);
  CHECK(peak(1) == before);

  turning.window.open({file});
  REQUIRE(QTest::qWaitFor([&] { return !turning.window.is_loading(); }, kPatience));
  turning.wait();
  REQUIRE(turning.window.document()->session.sides() == 2);
  CHECK(peak(0) == twice_after);
  CHECK(peak(1) == after);
  turning.window.run(CommandId::reset_knobs);
  turning.wait();
  CHECK(turning.window.document()->session.sides() == 1);
  CHECK(peak(0) == after);
}

TEST_CASE("what-if window: a stored prediction is turned with what it was predicted with") {
  const test::Scratch folder;
  const std::string stored = folder.path("stored.db");
  printed_by("foregather simulate " + kSamples +
             "tiny_fsdp2.toml --set train.seq_len=512 --what-if reshard=never -o " + stored);
  Turning turning(stored);
  QTest::keyClick(&turning.knob<QAbstractSpinBox>("train.micro_batch"), Qt::Key_Up);
  turning.wait();
  turning.window.run(CommandId::copy_command);
  const std::string command = QApplication::clipboard()->text().toStdString();
  CHECK(command == "foregather simulate " + stored + " --set train.micro_batch=4");
  const auto peak = printed_by(command)["peak_reserved_bytes"].get<Bytes>();
  CHECK(what_if_figures(turning.window.document()->session.run(0)).peak == peak);
}

TEST_CASE(
    "what-if window: with nothing turned the run is as it was opened, measured or predicted") {
  const test::Scratch folder;
  const std::string trace = kSamples + "thunder_tied_linear.txt";
  const std::string predicted = folder.path("predicted.db");
  printed_by("foregather simulate " + trace + " --what-if scale=gemm:3 -o " + predicted);
  const std::string measured = test::written(folder.path("measured.db"), two_steps());
  for (const std::string& file : {predicted, measured}) {
    CAPTURE(file);
    Turning turning(file);
    const run::Run* opened = turning.window.document()->session.open_run(0).run.get();
    turning.window.run(CommandId::reset_knobs);
    turning.wait();
    CHECK(turning.window.document()->session.open_run(0).run.get() == opened);
    CHECK(turning.window.difference().isEmpty());
  }
}

TEST_CASE("what-if window: a prediction of a trace is turned as that trace, with its options") {
  const test::Scratch folder;
  const std::string trace = folder.path("trace.txt"), stored = folder.path("stored.db");
  std::filesystem::copy(kSamples + "thunder_tied_linear.txt", trace);
  printed_by("foregather simulate " + trace + " --what-if scale=gemm:3 -o " + stored);
  {
    Turning turning(stored);
    QTest::keyClick(&turning.knob<QAbstractSpinBox>("scale=links:"), Qt::Key_Up);
    turning.wait();
    turning.window.run(CommandId::copy_command);
    const std::string command = QApplication::clipboard()->text().toStdString();
    CHECK(command ==
          "foregather simulate " + trace + " --what-if scale=gemm:3 --what-if scale=links:2");
    const auto& session = turning.window.document()->session;
    REQUIRE(session.sides() == 2);
    CHECK(what_if_figures(session.run(0)).step ==
          printed_by(command)["step_time_ns"].get<std::int64_t>());
  }
  std::filesystem::copy(kSamples + "thunder_mlp_zero3_forward.txt", trace,
                        std::filesystem::copy_options::overwrite_existing);
  {
    Turning turning(stored);
    const auto document = turning.window.document();
    QTest::keyClick(&turning.knob<QAbstractSpinBox>("scale=links:"), Qt::Key_Up);
    turning.wait();
    CHECK(turning.window.document() == document);
    CHECK(turning.window.knobs().message().contains("as it is now, predicts something else"));
  }
  std::filesystem::remove(trace);
  Turning turning(stored);
  CHECK(turning.window.knobs().knob("scale=links:") == nullptr);
  CHECK(turning.window.knobs().message().contains("which cannot be read"));
}

TEST_CASE("what-if window: of a pipeline's timeline its prediction is turned, with its step") {
  const test::Scratch folder;
  const std::string timeline = test::source_dir() + "/tests/golden/inputs/pipeline_two.json";
  {
    Turning turning(timeline);  // one rank and one step
    CHECK(turning.window.knobs().knob("scale=links:") == nullptr);
    CHECK(turning.window.knobs().message().contains("-o RUN.db"));
  }
  const std::string stored = folder.path("stored.db");
  printed_by("foregather simulate " + timeline + " --step 2 -o " + stored);
  Turning turning(stored);
  const auto step = [&](std::size_t side) {
    return what_if_figures(turning.window.document()->session.run(side)).step;
  };
  const auto opened = step(0);
  QTest::keyClick(&turning.knob<QAbstractSpinBox>("scale=links:"), Qt::Key_Up);
  turning.wait();
  turning.window.run(CommandId::copy_command);
  const std::string command = QApplication::clipboard()->text().toStdString();
  CHECK(command == "foregather simulate " + timeline + " --step 2 --what-if scale=links:2");
  CHECK(step(0) == printed_by(command)["step_time_ns"].get<std::int64_t>());
  CHECK(step(1) == opened);
  turning.window.run(CommandId::reset_knobs);
  turning.wait();
  CHECK(step(0) == opened);
}

TEST_CASE("what-if window: of a recording of several steps the one that is shown is turned") {
  const test::Scratch folder;
  const std::string measured = test::written(folder.path("measured.db"), two_steps());
  Turning turning(measured);
  const Ns step = *what_if_figures(turning.window.document()->session.run(0)).step;
  QTest::keyClick(&turning.knob<QAbstractSpinBox>("scale=links:"), Qt::Key_Up);
  turning.wait();
  turning.window.run(CommandId::copy_command);
  const std::string command = QApplication::clipboard()->text().toStdString();
  CHECK(command == "foregather simulate " + measured + " --step 2 --what-if scale=links:2");
  const auto& session = turning.window.document()->session;
  REQUIRE(session.sides() == 2);
  CHECK(what_if_figures(session.run(1)).step == step);
  CHECK(turning.window.difference().startsWith("step "));
  CHECK(what_if_figures(session.run(0)).step ==
        printed_by(command)["step_time_ns"].get<std::int64_t>());
}

TEST_CASE("what-if window: closing while a knob is simulated is clean") {
  for (int i = 0; i < test::repetitions(3); ++i) {
    Turning turning(kSamples + "llama3_70b_fsdp2.toml");
    turning.choose("parallel.backward_prefetch", "none");
    turning.window.close();
  }
}

TEST_CASE(
    "what-if window: a value beside the choices is typed, and a wheel turns nothing unasked") {
  Turning turning(kSamples + "tiny_fsdp2.toml");
  auto& box = turning.knob<QComboBox>("parallel.reshard_after_forward");
  REQUIRE(box.isEditable());
  const auto type = [&](const char* text) {
    box.setEditText(text);
    QTest::keyClick(box.lineEdit(), Qt::Key_Return);
    turning.wait();
    return turning.window.knobs().command_line();
  };
  const QString before = turning.window.knobs().command_line();
  CHECK(type("2").endsWith(" --set parallel.reshard_after_forward=2"));
  CHECK(box.currentText() == "2");
  CHECK(type("") == before);
  CHECK(type("4").endsWith(" --set parallel.reshard_after_forward=4"));
  CHECK(type(qPrintable(box.itemText(0))) == before);  // as it is
  for (const char* name : {"train.micro_batch", "parallel.backward_prefetch"}) {
    QWidget* const editor = turning.window.knobs().knob(name);
    REQUIRE(editor != nullptr);
    editor->clearFocus();
    turning.window.timeline().setFocus();
    const QPointF at(4, 4);
    QWheelEvent wheel(at, editor->mapToGlobal(at), {}, {0, 120}, Qt::NoButton, {},
                      Qt::NoScrollPhase, false);
    QApplication::sendEvent(editor, &wheel);
    turning.wait();
    CHECK(turning.window.knobs().command_line() == before);
  }
  auto& number = turning.knob<QAbstractSpinBox>("train.micro_batch");
  turning.window.activateWindow();
  number.setFocus();
  REQUIRE(QTest::qWaitFor([&] { return number.hasFocus(); }, kPatience));
  const QPointF at(4, 4);
  QWheelEvent wheel(at, number.mapToGlobal(at), {}, {0, 120}, Qt::NoButton, {}, Qt::NoScrollPhase,
                    false);
  QApplication::sendEvent(&number, &wheel);
  turning.wait();
  CHECK(turning.window.knobs().command_line().endsWith(" --set train.micro_batch=4"));
}

TEST_CASE("what-if window: further passes are typed as on the command line") {
  Turning turning(kSamples + "tiny_fsdp2.toml");
  QLineEdit* line = nullptr;
  for (QLineEdit* each : turning.window.knobs().findChildren<QLineEdit*>())
    if (each->accessibleName() == "Further passes") line = each;
  REQUIRE(line != nullptr);
  line->setText("scale=gemm:2 sort-waits");
  QTest::keyClick(line, Qt::Key_Return);
  turning.wait();
  CHECK(turning.window.knobs().command_line().endsWith(
      " --what-if scale=gemm:2 --what-if sort-waits"));
  REQUIRE(turning.window.document()->session.sides() == 2);
  const nlohmann::json cli = printed_by(turning.window.knobs().command_line().toStdString());
  CHECK(what_if_figures(turning.window.document()->session.run(0)).step ==
        cli["step_time_ns"].get<std::int64_t>());
  turning.window.run(CommandId::reset_knobs);
  turning.wait();
  for (QLineEdit* each : turning.window.knobs().findChildren<QLineEdit*>())
    if (each->accessibleName() == "Further passes") CHECK(each->text().isEmpty());
}
