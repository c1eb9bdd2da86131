// Spans of time on one line, for pictures whose cost follows pixels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/units.h"
#include "gui/models/largest_of.h"

namespace foregather::gui {

/// Half-open in time.
struct TimeRange {
  Ns begin = 0, end = 0;
  Ns length() const { return end - begin; }
  friend bool operator==(const TimeRange&, const TimeRange&) = default;
};

/// Disjoint spans in ascending order, each of an item (a row elsewhere). What a picture cannot show
/// apart is folded into cells: sums come from prefix sums, the item that stands for a cell from a
/// pyramid of longest spans (16 of a level make one of the next). A cell is found by galloping from
/// the one before it, so that a query costs pixels × log(spans in a pixel), less where pixels hold
/// alike many. 21 bytes a span and three of its share in blocks.
class Track {
 public:
  /// The span must begin no earlier than the one before it ended. It may be empty: a mark. `tag` is
  /// what a picture needs of the item to paint a cell, kept here so that it is near.
  void add(Ns begin, Ns end, std::uint32_t item, std::uint8_t tag = 0);
  /// After the last add(), before any query.
  void finish();
  void reserve(std::size_t spans);

  std::size_t size() const { return begins_.size(); }
  bool empty() const { return begins_.empty(); }
  Ns begin(std::size_t span) const { return begins_[span]; }
  Ns end(std::size_t span) const { return begins_[span] + length(span); }
  Ns length(std::size_t span) const { return sums_.empty() ? 0 : sums_[span + 1] - sums_[span]; }
  std::uint32_t item(std::size_t span) const { return items_[span]; }
  std::uint8_t tag(std::size_t span) const { return tags_[span]; }

  /// The first span that ends behind `time`, or is a mark at or behind it; size() if there is none.
  std::size_t first_after(Ns time) const;
  /// The first span at or behind `from` that begins at `time` or later; quick where it is about
  /// `guess` spans away.
  std::size_t first_from(std::size_t from, Ns time, std::size_t guess = 0) const;
  /// The span that holds `time`, or the mark at it; size() if there is none.
  std::size_t at(Ns time) const;
  /// Sum of the lengths of spans within the range.
  Ns busy(TimeRange range) const;
  /// The longest span of [first, last), the first of equals. The interval must not be empty.
  std::size_t longest(std::size_t first, std::size_t last) const;

  /// Neighbouring spans that a picture shows as one, and the longest of them. `begin` and `end`
  /// enclose them.
  struct Cell {
    std::size_t first = 0, last = 0;
    Ns begin = 0, end = 0;
    std::size_t longest = 0;
    std::uint8_t tag = 0;  ///< of the longest
    bool is_single() const { return last - first == 1; }
  };

  /// Calls visit(Cell) for what lies in the range, in order. Spans shorter than `pixel` (at least
  /// 1 ns) fold with their neighbours of the same pixel; longer ones stand alone. Pixels lie on a
  /// grid from time 0, so that panning changes no cell. Where a pixel holds many spans, they go to
  /// it by the block of 16, 64, 256, … that they are in, which is read alone.
  template <class Visit>
  void cells(TimeRange range, Ns pixel, Visit&& visit) const {
    std::size_t guess = 0;
    for (std::size_t span = first_after(range.begin); span < size();) {
      const Cell cell = cell_at(span, pixel, guess);
      if (cell.begin >= range.end) return;
      guess = cell.last - span - 1;
      span = cell.last;
      visit(cell);
    }
  }

 private:
  static Ns grid_after(Ns time, Ns pixel) {
    const Ns rest = time % pixel;
    return time - (rest < 0 ? rest + pixel : rest) + pixel;
  }

  /// Sixteen spans or four blocks: what a cell of many needs to know of them.
  struct Block {
    Ns begin = 0, end = 0;
    Ns length = 0;  ///< of the longest
    std::uint32_t longest = 0;
    std::uint8_t tag = 0;
  };
  Cell cell_at(std::size_t span, Ns pixel, std::size_t guess) const;
  std::optional<Cell> cell_of_blocks(std::size_t span, Ns pixel, std::size_t guess) const;

  std::vector<Ns> begins_;
  std::vector<Ns> sums_;  ///< of lengths before the span; one more than spans; empty: marks alone
  std::vector<std::uint32_t> items_;
  std::vector<std::uint8_t> tags_;
  LargestOf longest_;
  std::vector<std::vector<Block>> blocks_;  ///< of 16, of 64, of 256, … spans
};

}  // namespace foregather::gui
