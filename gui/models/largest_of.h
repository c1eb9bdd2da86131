// A pyramid over a row of numbers: which of a part is largest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace foregather::gui {

/// Levels of 16: level 0 says which of numbers 0…15, 16…31, … is largest, level 1 of 256 each.
/// Linear to build, logarithmic to ask; the first of equals wins. `number(i)` gives number i and
/// must not change.
class LargestOf {
 public:
  template <class Number>
  void build(std::size_t size, Number&& number) {
    levels_.clear();
    for (std::size_t below = size; below > kFan;) {
      std::vector<std::uint32_t> level((below + kFan - 1) / kFan);
      for (std::size_t i = 0; i < level.size(); ++i) {
        std::size_t best = row(levels_.size(), i * kFan);
        for (std::size_t at = i * kFan + 1; at < std::min(below, (i + 1) * kFan); ++at)
          if (number(row(levels_.size(), at)) > number(best)) best = row(levels_.size(), at);
        level[i] = static_cast<std::uint32_t>(best);
      }
      below = level.size();
      levels_.push_back(std::move(level));
    }
  }

  /// The largest of [first, last), which must not be empty.
  template <class Number>
  std::size_t find(std::size_t first, std::size_t last, Number&& number) const {
    std::size_t best = first;
    const auto consider = [&](std::size_t i) {
      if (number(i) > number(best) || (number(i) == number(best) && i < best)) best = i;
    };
    for (std::size_t level = 0;; ++level, first /= kFan, last /= kFan) {
      if (level == levels_.size() || last - first <= 2 * kFan) {
        for (; first < last; ++first) consider(row(level, first));
        return best;
      }
      for (; first % kFan != 0; ++first) consider(row(level, first));
      for (; last % kFan != 0; --last) consider(row(level, last - 1));
    }
  }

 private:
  static constexpr std::size_t kFan = 16;
  std::size_t row(std::size_t level, std::size_t at) const {
    return level == 0 ? at : levels_[level - 1][at];
  }

  std::vector<std::vector<std::uint32_t>> levels_;
};

}  // namespace foregather::gui
