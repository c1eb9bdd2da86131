// Dark or light, as the desktop is.
#pragma once

#include <QDBusMessage>
#include <QObject>
#include <QVariant>
#include <functional>

namespace foregather::gui {

/// Asks the desktop's settings portal, and hears of changes. A session without one says nothing.
/// Source: org.freedesktop.portal.Settings, org.freedesktop.appearance color-scheme.
class SystemTheme final : public QObject {
  Q_OBJECT

 public:
  /// `is_dark`: what is shown, and what a desktop without a preference gets. `follow(is dark)` is
  /// called with every change of it, in the event loop.
  SystemTheme(bool is_dark, std::function<void(bool)> follow);

 public slots:
  /// The portal's SettingChanged: namespace, key, value.
  void changed(const QDBusMessage& signal);

 private:
  void take(const QVariant& scheme);
  std::function<void(bool)> follow_;
  bool without_preference_, is_dark_;
};

}  // namespace foregather::gui
