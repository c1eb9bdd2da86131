// A pyramid over a row of numbers: which of a part is largest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace foregather::gui {

/// Levels of 16: level 0 says which of numbers 0…15, 16…31, … is largest, level 1 of 256 each, with
/// the numbers themselves, so that a question reads neighbours in memory. Linear to build,
/// logarithmic to ask; the first of equals wins. `number(i)` gives number i and must not change.
class LargestOf {
 public:
  template <class Number>
  void build(std::size_t size, Number&& number) {
    levels_.clear();
    for (std::size_t below = size; below > kFan; below = levels_.back().size()) {
      const auto entry = [&](std::size_t at) {
        return levels_.empty() ? Entry{number(at), static_cast<std::uint32_t>(at)}
                               : levels_.back()[at];
      };
      std::vector<Entry> level((below + kFan - 1) / kFan);
      for (std::size_t i = 0; i < level.size(); ++i) {
        level[i] = entry(i * kFan);
        for (std::size_t at = i * kFan + 1; at < std::min(below, (i + 1) * kFan); ++at)
          if (const Entry next = entry(at); next.number > level[i].number) level[i] = next;
      }
      levels_.push_back(std::move(level));
    }
  }

  /// The largest of [first, last), which must not be empty.
  template <class Number>
  std::size_t find(std::size_t first, std::size_t last, Number&& number) const {
    Entry best{number(first), static_cast<std::uint32_t>(first)};
    const auto consider = [&](const Entry& entry) {
      if (entry.number > best.number || (entry.number == best.number && entry.row < best.row))
        best = entry;
    };
    const auto entry = [&](std::size_t level, std::size_t at) {
      return level == 0 ? Entry{number(at), static_cast<std::uint32_t>(at)}
                        : levels_[level - 1][at];
    };
    for (std::size_t level = 0;; ++level, first /= kFan, last /= kFan) {
      if (level == levels_.size() || last - first <= kFan) {
        for (; first < last; ++first) consider(entry(level, first));
        return best.row;
      }
      for (; first % kFan != 0; ++first) consider(entry(level, first));
      for (; last % kFan != 0; --last) consider(entry(level, last - 1));
    }
  }

 private:
  static constexpr std::size_t kFan = 16;
  struct Entry {
    std::int64_t number = 0;
    std::uint32_t row = 0;
  };

  std::vector<std::vector<Entry>> levels_;
};

}  // namespace foregather::gui
