#include "gui/app/system_theme.h"

#include <QDBusConnection>
#include <QDBusMessage>
#include <QDBusPendingCallWatcher>
#include <QDBusPendingReply>

namespace foregather::gui {
namespace {

const char* const kService = "org.freedesktop.portal.Desktop";
const char* const kPath = "/org/freedesktop/portal/desktop";
const char* const kInterface = "org.freedesktop.portal.Settings";
const char* const kSpace = "org.freedesktop.appearance";
const char* const kKey = "color-scheme";
constexpr unsigned kDark = 1, kLight = 2;  // 0: no preference

}  // namespace

SystemTheme::SystemTheme(bool is_dark, std::function<void(bool)> follow)
    : follow_(std::move(follow)), without_preference_(is_dark), is_dark_(is_dark) {
  QDBusConnection bus = QDBusConnection::sessionBus();
  if (!bus.isConnected()) return;
  bus.connect(kService, kPath, kInterface, "SettingChanged", this, SLOT(changed(QDBusMessage)));
  QDBusMessage question = QDBusMessage::createMethodCall(kService, kPath, kInterface, "Read");
  question << kSpace << kKey;
  auto* answer = new QDBusPendingCallWatcher(bus.asyncCall(question), this);
  connect(answer, &QDBusPendingCallWatcher::finished, this, [this, answer] {
    answer->deleteLater();
    const QDBusPendingReply<QDBusVariant> reply = *answer;
    if (!reply.isError()) take(reply.value().variant());
  });
}

void SystemTheme::changed(const QDBusMessage& signal) {
  const QVariantList arguments = signal.arguments();
  if (arguments.value(0) == kSpace && arguments.value(1) == kKey) take(arguments.value(2));
}

// Wrapped once or twice.
void SystemTheme::take(const QVariant& scheme) {
  if (scheme.canConvert<QDBusVariant>()) return take(scheme.value<QDBusVariant>().variant());
  bool is_number = false;
  const unsigned number = scheme.toUInt(&is_number);
  if (!is_number) return;
  const bool dark = number == kDark || (number != kLight && without_preference_);
  if (dark == is_dark_) return;
  is_dark_ = dark;
  follow_(dark);
}

}  // namespace foregather::gui
