// What a window saves, beside what it shows.
#pragma once

#include <QImage>
#include <QPixmap>
#include <QWidget>
#include <catch2/catch.hpp>

#include "gui/app/main_window.h"
#include "tests/support/scratch.h"

namespace foregather::test {

inline QImage saved_page(const gui::MainWindow& window) {
  const Scratch folder;
  const std::string path = folder.path("page.png");
  REQUIRE(window.save_page(path));
  return QImage(QString::fromStdString(path)).convertToFormat(QImage::Format_RGB32);
}

inline QImage shown(QWidget& widget) {
  return widget.grab().toImage().convertToFormat(QImage::Format_RGB32);
}

}  // namespace foregather::test
