// Frame times of the timeline: gui_bench [EVENTS...]. 32 lanes at 1920x1080, software rendering.
// gui_bench --open [EVENTS...]: how long it takes from a run's database to the document, and how
// much memory; three times.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <QApplication>
#include <QElapsedTimer>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/heap.h"
#include "core/store/reader.h"
#include "core/store/writer.h"
#include "gui/models/document.h"
#include "gui/views/timeline_view.h"

using namespace foregather;
using namespace foregather::gui;

namespace {

constexpr std::size_t kStreams = 32;

run::Run many_ops(std::size_t ops) {
  run::Run run;
  run.about.name = "bench";
  const auto rank = run.add(run::ClassInfo{run.text("all"), {0}});
  std::vector<run::StreamRow> streams;
  for (std::size_t s = 0; s < kStreams; ++s)
    streams.push_back(run.add(run::StreamInfo{rank, run.text("stream " + std::to_string(s)), 0}));
  run::StepInfo step;
  step.rank_class = rank;
  step.kind = run::StepKind::steady;
  step.end = static_cast<Ns>(ops / kStreams + 1) * 10'000;
  run::OpRecord op;
  op.step = run.add(step);
  op.source = run.text("bench");
  std::vector<StringId> scopes;
  for (int i = 0; i < 80; ++i) scopes.push_back(run.text("layers." + std::to_string(i) + ".attn"));
  run.ops.reserve(ops);
  for (std::size_t i = 0; i < ops; ++i) {
    op.stream = streams[i % kStreams];
    op.kind = static_cast<OpKind>(i * 7919 % 20);
    op.scope = scopes[i / 1000 % scopes.size()];
    op.ordinal = static_cast<std::uint32_t>(i);
    op.start = op.transfer = static_cast<Ns>(i / kStreams) * 10'000 + static_cast<Ns>(i % 997);
    op.end = op.start + 2'000 + static_cast<Ns>(i * 31 % 7'000);
    op.issued = op.start - 500;
    run.add(op);
  }
  return run;
}

// "least, median".
std::string spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  char text[64];
  std::snprintf(text, sizeof text, "%6.2f, median %6.2f", values.front(),
                values[values.size() / 2]);
  return text;
}

// Milliseconds of this thread's processor time: other programs of the machine do not count.
double processor_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

void print_frames(TimelineView& view, double zoom) {
  std::vector<double> wall, busy;
  for (int i = 0; i < 15; ++i) {
    view.change([](ViewState&) {});
    const double before = processor_ms();
    view.grab();
    busy.push_back(processor_ms() - before);
    wall.push_back(view.frame_ms());
  }
  std::printf("  zoom %-8g frame %s ms; processor, with copying %s ms\n", zoom,
              spread(wall).c_str(), spread(busy).c_str());
}

// In a process of its own: its memory is that of opening alone.
void measure_open(std::size_t events) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("gui-bench-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = (folder / "run.db").string();
  const auto in_child = [](auto&& work) {
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child == 0) ::_exit((work(), std::fflush(stdout), 0));
    int status = 0;
    ::waitpid(child, &status, 0);
  };
  in_child([&] {
    auto writer = store::RunWriter::create(path);
    if (!writer || !writer->write(many_ops(events)) || !writer->finish())
      std::printf("%s: cannot be written\n", path.c_str());
  });
  const auto open = [&] {
    QElapsedTimer timer;
    timer.start();
    auto run = store::read_run(path);
    if (!run) return std::printf("%s\n", run.error().text().c_str()), void();
    const qint64 read = timer.elapsed();
    const auto document =
        Document::open({{std::make_shared<const run::Run>(std::move(*run)), path, {}}});
    const qint64 all = timer.elapsed();
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    std::printf("%zu events: read in %lld ms, open in %lld ms, at most %ld MiB\n", events,
                static_cast<long long>(read), static_cast<long long>(all), usage.ru_maxrss / 1024);
  };
  for (int i = 0; i < 3; ++i) in_child(open);
  std::filesystem::remove_all(folder);
}

void measure(std::size_t events) {
  QElapsedTimer timer;
  std::vector<OpenRun> runs{{std::make_shared<const run::Run>(many_ops(events)), "bench", {}}};
  timer.start();
  const auto document = *Document::open(std::move(runs));
  std::printf("%zu events: laid out in %lld ms\n", events, static_cast<long long>(timer.elapsed()));
  TimelineView view;
  view.resize(1920, 1080);
  view.set_document(document);
  view.show_range(document->session.extent());
  for (const double zoom : {1.0, 0.1, 0.01, 0.001, 0.0001, 0.00001, 0.000001}) {
    const TimeRange all = document->session.extent();
    view.show_range(zoomed(all, zoom, all.length() / 3, all));
    print_frames(view, zoom);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--open") {
    if (argc == 2) measure_open(10'000'000);
    for (int i = 2; i < argc; ++i) measure_open(std::strtoul(argv[i], nullptr, 10));
    return 0;
  }
  qputenv("QT_QPA_PLATFORM", "offscreen");
  int qt_argc = 1;
  const QApplication application(qt_argc, argv);
  if (argc < 2) measure(1'000'000), measure(10'000'000);
  for (int i = 1; i < argc; ++i) measure(std::strtoul(argv[i], nullptr, 10));
  return 0;
}
