// Where a view has been.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace foregather::gui {

/// Views that were left, to go back to. Wheel turns, drags and letters in quick succession are one
/// step, unless something else was done between them.
template <class View>
class History {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `before` is left. `is_gesture`: what follows soon may go on with it.
  void leave(View before, bool is_gesture, Time now = std::chrono::steady_clock::now()) {
    const bool goes_on = is_gesture && last_gesture_ && now - *last_gesture_ < kPause;
    last_gesture_ = is_gesture ? std::optional(now) : std::nullopt;
    if (goes_on || (!past_.empty() && past_.back() == before)) return;
    if (past_.size() == kMostViews) past_.erase(past_.begin());
    past_.push_back(std::move(before));
  }
  bool empty() const { return past_.empty(); }
  /// The last view left; must not be empty().
  View back() {
    last_gesture_.reset();
    View view = std::move(past_.back());
    past_.pop_back();
    return view;
  }

 private:
  static constexpr std::size_t kMostViews = 200;
  static constexpr std::chrono::milliseconds kPause{600};

  std::vector<View> past_;
  std::optional<Time> last_gesture_;
};

}  // namespace foregather::gui
