// What the desktop's settings say of dark and light.
#include "gui/app/system_theme.h"

#include <QDBusVariant>
#include <vector>
#include <catch2/catch.hpp>

using namespace foregather::gui;

TEST_CASE("system theme: changes of the color scheme are followed, others are not") {
  std::vector<bool> followed;
  SystemTheme theme(false, [&](bool dark) { followed.push_back(dark); });
  const auto say = [&](const char* space, const char* key, const QVariant& value) {
    QDBusMessage signal = QDBusMessage::createSignal("/", "portal.Settings", "SettingChanged");
    signal << space << key << QVariant::fromValue(QDBusVariant(value));
    theme.changed(signal);
  };
  say("org.freedesktop.appearance", "color-scheme", 1U);
  say("org.freedesktop.appearance", "color-scheme", 1U);
  say("org.freedesktop.appearance", "contrast", 2U);
  say("org.gnome.desktop.interface", "color-scheme", 2U);
  say("org.freedesktop.appearance", "color-scheme", "dark");
  CHECK(followed == std::vector<bool>{true});
  // No preference: as it was at first.
  say("org.freedesktop.appearance", "color-scheme", 0U);
  CHECK(followed == std::vector<bool>{true, false});
  say("org.freedesktop.appearance", "color-scheme", 1U);
  say("org.freedesktop.appearance", "color-scheme",
      QVariant::fromValue(QDBusVariant(QVariant(2U))));
  CHECK(followed == std::vector<bool>{true, false, true, false});
  theme.changed(QDBusMessage::createSignal("/", "portal.Settings", "SettingChanged"));
  CHECK(followed.size() == 4);
}
