#include <QApplication>
#include <QIcon>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/base/heap.h"
#include "core/base/last_words.h"
#include "core/base/printable.h"
#include "gui/app/main_window.h"
#include "gui/app/palette.h"
#include "gui/app/render.h"
#include "gui/app/system_theme.h"
#include "gui/views/timeline_view.h"

namespace {

using namespace foregather;

int give_up(const Error& error) {
  std::fprintf(stderr, "foregather: %s\n", error.text().c_str());
  return error.fault == Fault::input ? 2 : 1;
}

[[noreturn]] void end_without_memory() {
  remove_temporaries();
  std::fputs("foregather: out of memory\n", stderr);
  std::_Exit(1);
}

// Qt lets an exception of its own go where none may.
[[noreturn]] void end_by_exception() {
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    end_without_memory();
  } catch (...) {
  }
  std::abort();
}

// What Qt notes about sessions that have no desktop says nothing about a picture. Where it can
// begin no thread to paint with, it would wait for that thread for ever.
void drop_notes(QtMsgType type, const QMessageLogContext&, const QString& text) {
  if (text.startsWith("QThread::start")) end_without_memory();
  if (type == QtCriticalMsg || type == QtFatalMsg)
    std::fprintf(stderr, "foregather: %s\n", text.toUtf8().constData());
}

// While the application is made: Qt aborts where none of its platforms can begin.
void end_without_display(QtMsgType type, const QMessageLogContext&, const QString&) {
  if (type != QtFatalMsg) return;
  remove_temporaries();
  std::fputs("foregather: no display: log in to a desktop, or use ssh -X\n", stderr);
  std::_Exit(1);
}

// Painting into files needs no display.
int render_main(int argc, char** argv) {
  const auto request = gui::parse_render({argv + 2, argv + argc});
  if (!request) return give_up(request.error());
  qputenv("QT_QPA_PLATFORM", "offscreen");
  qInstallMessageHandler(drop_notes);
  std::set_terminate(end_by_exception);
  int qt_argc = 1;
  const QGuiApplication application(qt_argc, argv);
  const Status rendered = gui::render(*request);
  return rendered ? 0 : give_up(rendered.error());
}

const char* const kUsage =
    "usage: foregather-gui [--frame-time] [FILE...]\n"
    "       foregather-gui --render RUN [MEASURED] --output=OUT [OPTION...]\n\n"
    "Shows run databases, recordings and workloads; two lie over each other, the prediction "
    "first.\n"
    "--frame-time shows how long a picture of the timeline takes. What --render does:\n"
    "foregather render --help.\n";

int window_main(int argc, char** argv) {
  std::vector<std::string> files;
  bool frame_time = false;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  for (const std::string& argument : arguments) {
    if (argument == "--help" || argument == "-h") return std::fputs(kUsage, stdout) < 0 ? 1 : 0;
    if (argument == "--frame-time")
      frame_time = true;
    else if (argument.starts_with("--"))
      return give_up(Error{printable(argument), "is no option", Fault::input});
    else
      files.push_back(argument);
  }
  int qt_argc = 1;
  const QtMessageHandler usual = qInstallMessageHandler(end_without_display);
  const QApplication application(qt_argc, argv);
  qInstallMessageHandler(usual);
  QApplication::setApplicationName("Foregather");
  QApplication::setOrganizationName("foregather");
  QApplication::setWindowIcon(QIcon(":/foregather.svg"));
  QApplication::setDesktopFileName("foregather");
  const bool is_dark = gui::system_is_dark();
  gui::MainWindow window;
  window.timeline().set_frame_time(frame_time);
  window.show();
  window.open(files);
  const gui::SystemTheme theme(is_dark, [&window](bool dark) { window.set_dark(dark); });
  return QApplication::exec();
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  remove_temporaries_on_signals();
  end_in_order();
  if (argc > 1 && std::string(argv[1]) == "--render") return render_main(argc, argv);
  return window_main(argc, argv);
}
