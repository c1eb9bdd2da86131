// What other threads hand to that of the windows.
#pragma once

#include <deque>
#include <functional>
#include <mutex>

namespace foregather::gui {

/// Hands work to the thread of whoever owns the windows. What is posted may run after its poster is
/// gone, or never.
using Post = std::function<void(std::function<void()>)>;

/// What was posted and waits to run. Put from any thread, run on one.
class Inbox {
 public:
  void put(std::function<void()> what);
  /// The oldest, which may run others in turn. False: none waits.
  bool run_next();

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> waiting_;
};

}  // namespace foregather::gui
