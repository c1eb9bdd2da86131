// Reading that somebody no longer waits for.
#pragma once

#include <atomic>

#include "core/base/result.h"

namespace foregather {

/// While it lives, readers on this thread give up soon after `stop` becomes true. Scopes nest: the
/// innermost counts. `stop` must outlive it.
class Interruptible {
 public:
  explicit Interruptible(const std::atomic<bool>& stop);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  const std::atomic<bool>* outer_;
};

/// What the innermost scope of this thread looks at, for threads that help it; null: no scope.
const std::atomic<bool>* interrupt_flag();

/// Should what this thread reads end? Cheap enough for each row.
bool is_interrupted();

/// "PLACE: reading was canceled".
tl::unexpected<Error> interrupted_at(const std::string& place);

}  // namespace foregather
