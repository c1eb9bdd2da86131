// Dark or light, as the desktop is.
#pragma once

#include <QDBusMessage>
#include <QObject>
#include <QVariant>
#include <functional>
#include <optional>

namespace foregather::gui {

/// Asks the desktop's settings portal, and hears of changes. A session without one says nothing.
/// Source: org.freedesktop.portal.Settings, org.freedesktop.appearance color-scheme.
class SystemTheme final : public QObject {
  Q_OBJECT

 public:
  /// `follow(is dark)` is called with the first answer and with every change, in the event loop.
  explicit SystemTheme(std::function<void(bool)> follow);

 public slots:
  /// The portal's SettingChanged: namespace, key, value.
  void changed(const QDBusMessage& signal);

 private:
  void take(const QVariant& scheme);
  std::function<void(bool)> follow_;
  std::optional<bool> is_dark_;
};

}  // namespace foregather::gui
