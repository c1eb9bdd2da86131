#include "gui/models/inbox.h"

#include <utility>

namespace foregather::gui {

void Inbox::put(std::function<void()> what) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(what));
}

bool Inbox::run_next() {
  std::function<void()> what;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return false;
    what = std::move(waiting_.front());
    waiting_.pop_front();
  }
  what();
  return true;
}

}  // namespace foregather::gui
