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

SystemTheme::SystemTheme(std::function<void(bool)> follow) : follow_(std::move(follow)) {
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
  const unsigned number = scheme.toUInt();
  if ((number != kDark && number != kLight) || is_dark_ == (number == kDark)) return;
  is_dark_ = number == kDark;
  follow_(*is_dark_);
}

}  // namespace foregather::gui
