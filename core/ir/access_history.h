// Who touched the bytes of one storage. Internal to core/ir.
#pragma once

#include <algorithm>
#include <vector>

#include "core/ir/graph.h"

namespace foregather {

/// One op's touch of bytes [begin, end) of a storage.
struct Touch {
  Bytes begin = 0;
  Bytes end = 0;
  OpId op;
  StreamId stream;
  std::uint32_t position = 0;  ///< of the op on its stream
  bool writes = false;         ///< or accumulates
};

/// The touches of one storage that a later one may still conflict with.
///
/// A write forgets what it covers, a read the reads of its own stream that it covers: whoever comes
/// after the newer touch comes after the older one, too. Touches of the whole storage are a short
/// list; the others are sorted by begin, so that thousands of slices cost a binary search each.
class AccessHistory {
 public:
  /// Adds a touch of a storage of `size` bytes. First calls conflict(earlier) for each touch of
  /// another stream that overlaps, one of the two writing.
  template <class Conflict>
  void add(const Touch& touch, Bytes size, Conflict conflict) {
    const auto forget = [&](const Touch& earlier) {
      if (earlier.end <= touch.begin || touch.end <= earlier.begin) return false;
      if ((touch.writes || earlier.writes) && earlier.stream != touch.stream) conflict(earlier);
      const bool is_covered = touch.begin <= earlier.begin && earlier.end <= touch.end;
      return is_covered && (touch.writes || (!earlier.writes && earlier.stream == touch.stream));
    };
    std::erase_if(whole_, forget);
    const auto first = std::partition_point(
        slices_.begin(), slices_.end(),
        [&](const Touch& other) { return other.begin <= touch.begin - longest_; });
    const auto last = std::partition_point(
        first, slices_.end(), [&](const Touch& other) { return other.begin < touch.end; });
    slices_.erase(std::remove_if(first, last, forget), last);
    if (touch.begin == 0 && touch.end == size) {
      whole_.push_back(touch);
      return;
    }
    longest_ = std::max(longest_, touch.end - touch.begin);
    const auto place =
        std::partition_point(slices_.begin(), slices_.end(),
                             [&](const Touch& other) { return other.begin <= touch.begin; });
    slices_.insert(place, touch);
  }

  template <class Visit>
  void each(Visit visit) const {
    for (const Touch& touch : whole_) visit(touch);
    for (const Touch& touch : slices_) visit(touch);
  }

  void clear() {
    whole_.clear();
    slices_.clear();
    longest_ = 0;
  }

 private:
  std::vector<Touch> whole_;
  std::vector<Touch> slices_;
  Bytes longest_ = 0;  ///< of the slices since clear()
};

}  // namespace foregather
