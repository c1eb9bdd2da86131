// The clock of a run: nanoseconds since it began.
#pragma once

#include <chrono>
#include <thread>

#include "core/base/units.h"

namespace foregather::runtime {

class Clock {
 public:
  Ns now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                                begin_)
        .count();
  }
  void sleep_until(Ns time) const {
    std::this_thread::sleep_until(begin_ + std::chrono::nanoseconds(time));
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace foregather::runtime
