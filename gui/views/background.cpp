#include "gui/views/background.h"

#include <QCoreApplication>
#include <QEvent>

#include "gui/models/inbox.h"

#ifdef __SANITIZE_THREAD__
// Qt is built without the sanitizer, which does not see what its threads wait for.
extern "C" const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }
#endif

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
