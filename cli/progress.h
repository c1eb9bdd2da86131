// What long work shows of itself on a terminal.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <string>

namespace foregather::cli {

/// One line on standard error that is written over, and gone at the end. Nothing where standard
/// error is no terminal.
class ProgressLine {
 public:
  /// `share` of the work is done, 0 to 1; `words()` says more of it.
  template <class Words>
  void show(double share, const Words& words) {
    using namespace std::chrono_literals;
    const auto now = Clock::now();
    if (!is_terminal_ || (is_shown_ && now - last_ < 200ms)) return;
    last_ = now;
    is_shown_ = true;
    const auto width = static_cast<std::size_t>(share * kWidth);
    const double left = share > 0 ? seconds() / share * (1 - share) : 0;
    fmt::print(stderr, "\r[{:<{}}] {:3.0f} %  {}, {:.0f} s left \033[K", std::string(width, '#'),
               kWidth, share * 100, words(), left);
  }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  ProgressLine() = default;
  ~ProgressLine() {
    if (is_shown_) fmt::print(stderr, "\r\033[K");
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kWidth = 30;
  bool is_terminal_ = ::isatty(STDERR_FILENO) != 0;
  bool is_shown_ = false;
  Clock::time_point begin_ = Clock::now(), last_;
};

}  // namespace foregather::cli
