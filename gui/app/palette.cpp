#include "gui/app/palette.h"

#include <QApplication>
#include <QPalette>
#include <QStyleFactory>

namespace foregather::gui {

bool system_is_dark() {
  const QPalette palette = QApplication::palette();
  return palette.color(QPalette::Window).lightness() <
         palette.color(QPalette::WindowText).lightness();
}

void use_palette(const Theme& theme) {
  QApplication::setStyle(QStyleFactory::create("Fusion"));
  QPalette palette;
  const auto set = [&](std::initializer_list<QPalette::ColorRole> roles, const QColor& color) {
    for (const QPalette::ColorRole role : roles) palette.setColor(role, color);
  };
  set({QPalette::Window, QPalette::Button, QPalette::AlternateBase, QPalette::ToolTipBase},
      theme.band);
  set({QPalette::Base}, theme.ground);
  set({QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::ToolTipText},
      theme.text);
  set({QPalette::PlaceholderText}, theme.faint);
  set({QPalette::Mid, QPalette::Dark}, theme.line);
  set({QPalette::Highlight, QPalette::Link}, theme.family[0]);
  set({QPalette::HighlightedText}, QColor(Qt::white));
  for (const QPalette::ColorRole role :
       {QPalette::WindowText, QPalette::Text, QPalette::ButtonText})
    palette.setColor(QPalette::Disabled, role, theme.faint);
  QApplication::setPalette(palette);
}

}  // namespace foregather::gui
