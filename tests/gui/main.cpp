// Catch2's main with an application of Qt around it.
#define CATCH_CONFIG_RUNNER
#include <QApplication>
#include <QSettings>
#include <iostream>
#include <catch2/catch.hpp>

#include "tests/support/scratch.h"
#include "tests/support/skip.h"

namespace {

// Catch2 says what fails; the offscreen platform has much to say of what it is not.
void drop_notes(QtMsgType type, const QMessageLogContext&, const QString& text) {
  if (type == QtFatalMsg || type == QtCriticalMsg) std::cerr << text.toStdString() << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  qputenv("QT_QPA_PLATFORM", "offscreen");
  qInstallMessageHandler(drop_notes);
  int qt_argc = 1;
  const QApplication application(qt_argc, argv);
  // Not those of whoever runs the tests.
  const foregather::test::Scratch settings;
  QCoreApplication::setOrganizationName("foregather");
  QSettings::setDefaultFormat(QSettings::IniFormat);
  QSettings::setPath(QSettings::IniFormat, QSettings::UserScope,
                     QString::fromStdString(settings.path("")));
  const int failed = Catch::Session().run(argc, argv);
  constexpr int kSkipped = 77;
  return failed == 0 && foregather::test::skipped_cases() > 0 ? kSkipped : failed;
}
