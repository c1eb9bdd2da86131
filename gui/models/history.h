// Where a view has been.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace foregather::gui {

/// Views that were left, to go back to. A step follows a pause: wheel turns in quick succession are
/// one.
template <class View>
class History {
 public:
  /// `before` is left. `is_same_gesture`: the change goes on from the last one.
  void leave(View before, bool is_same_gesture) {
    if (is_same_gesture && !past_.empty()) return;
    if (!past_.empty() && past_.back() == before) return;
    if (past_.size() == kMostViews) past_.erase(past_.begin());
    past_.push_back(std::move(before));
  }
  bool empty() const { return past_.empty(); }
  /// The last view left; must not be empty().
  View back() {
    View view = std::move(past_.back());
    past_.pop_back();
    return view;
  }

 private:
  static constexpr std::size_t kMostViews = 200;
  std::vector<View> past_;
};

}  // namespace foregather::gui
