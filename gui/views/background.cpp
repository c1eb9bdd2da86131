#include "gui/views/background.h"

#include <QCoreApplication>
#include <QEvent>

#include "gui/models/inbox.h"

namespace foregather::gui {
namespace {

// Qt's events only wake the owner's thread, one for each post: what passes between threads does so
// in the inbox.
class Door final : public QObject {
 public:
  using QObject::QObject;
  void post(std::function<void()> what) {
    inbox_.put(std::move(what));
    QCoreApplication::postEvent(this, new QEvent(QEvent::User));
  }

 protected:
  void customEvent(QEvent* /*event*/) override { inbox_.run_next(); }

 private:
  Inbox inbox_;
};

}  // namespace

Post post_to(QObject* owner) {
  return [door = new Door(owner)](std::function<void()> what) { door->post(std::move(what)); };
}

}  // namespace foregather::gui
