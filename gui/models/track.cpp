#include "gui/models/track.h"

#include <cassert>

namespace foregather::gui {
namespace {

constexpr std::size_t kBlock = 16, kFactor = 4;
constexpr std::size_t kSeveral = 2;  ///< blocks a cell

}  // namespace
void Track::reserve(std::size_t spans) {
  begins_.reserve(spans);
  items_.reserve(spans);
  tags_.reserve(spans);
}

void Track::add(Ns begin, Ns end, std::uint32_t item, std::uint8_t tag) {
  assert(begins_.empty() || begin >= this->end(size() - 1));
  begins_.push_back(begin);
  if (sums_.empty() && end > begin) {
    sums_.reserve(begins_.capacity() + 1);
    sums_.assign(begins_.size(), 0);
  }
  if (!sums_.empty()) sums_.push_back(sums_.back() + (end - begin));
  items_.push_back(item);
  tags_.push_back(tag);
}

void Track::finish() {
  if (!sums_.empty()) longest_.build(size(), [this](std::size_t span) { return length(span); });
  blocks_.clear();
  for (std::size_t spans = kBlock; spans < size(); spans *= kFactor) {
    std::vector<Block> level;
    level.reserve((size() + spans - 1) / spans);
    for (std::size_t first = 0; first < size(); first += spans) {
      const std::size_t last = std::min(first + spans, size());
      const std::size_t found = longest(first, last);
      level.push_back({begins_[first], end(last - 1), length(found),
                       static_cast<std::uint32_t>(found), tags_[found]});
    }
    blocks_.push_back(std::move(level));
  }
}

Track::Cell Track::cell_at(std::size_t span, Ns pixel, std::size_t guess) const {
  if (const auto folded = cell_of_blocks(span, pixel, guess)) return *folded;
  Cell cell{span, span + 1, begins_[span], end(span), span, tags_[span]};
  if (cell.end - cell.begin >= pixel) return cell;
  cell.last = first_from(span + 1, grid_after(cell.begin, pixel), guess);
  // The last one stands alone if it fills a pixel by itself.
  if (cell.last - span > 1 && length(cell.last - 1) >= pixel) --cell.last;
  cell.end = end(cell.last - 1);
  if (cell.last - span > 1) cell.longest = longest(span, cell.last);
  cell.tag = tags_[cell.longest];
  return cell;
}

// The spans up to the end of their block, and the blocks behind it that begin before the edge; of
// the largest blocks of which a cell has several. Nothing where a span among them must stand alone,
// or where a block reaches far: there is a gap in it.
// Blocks lie one behind the other; reading a span of each cell would wait for memory.
std::optional<Track::Cell> Track::cell_of_blocks(std::size_t span, Ns pixel,
                                                 std::size_t guess) const {
  std::size_t level = 0, spans = kBlock;
  if (guess < kSeveral * spans || blocks_.empty()) return std::nullopt;
  for (; level + 1 < blocks_.size() && guess >= kSeveral * spans * kFactor; ++level)
    spans *= kFactor;
  const std::vector<Block>& blocks = blocks_[level];
  const std::size_t own = span / spans;
  Cell cell{span, span, span % spans == 0 ? blocks[own].begin : begins_[span], 0, span, 0};
  const Ns edge = grid_after(cell.begin, pixel);
  Ns most = -1;
  for (std::size_t block = own; block < blocks.size() && blocks[block].begin < edge; ++block) {
    if (blocks[block].length >= pixel || blocks[block].end > edge + pixel / 2) break;
    // Of the first block, the longest may lie before the cell: it is as good a stand-in.
    if (blocks[block].length > most) {
      most = blocks[block].length;
      cell.longest = blocks[block].longest;
      cell.tag = blocks[block].tag;
    }
    cell.last = std::min((block + 1) * spans, size());
    cell.end = blocks[block].end;
  }
  if (cell.last <= span + 1) return std::nullopt;
  return cell;
}

std::size_t Track::first_from(std::size_t from, Ns time, std::size_t guess) const {
  // All before `low` begin earlier, none from `high` on does.
  std::size_t low = from, high = size();
  std::size_t at = std::min(from + guess, size());
  if (at == size() || begins_[at] >= time) {
    for (std::size_t step = 1; at > low; step *= 2) {
      high = at;
      at = at - low > step ? at - step : low;
      if (begins_[at] < time) {
        low = at + 1;
        break;
      }
      if (at == low) return low;
    }
  } else {
    for (std::size_t step = 1; at < size() && begins_[at] < time; step *= 2) {
      low = at + 1;
      at = std::min(at + step, size());
    }
    high = at;
  }
  const auto first = begins_.begin() + static_cast<std::ptrdiff_t>(low);
  const auto last = begins_.begin() + static_cast<std::ptrdiff_t>(high);
  return static_cast<std::size_t>(std::lower_bound(first, last, time) - begins_.begin());
}

std::size_t Track::first_after(Ns time) const {
  const auto found = static_cast<std::size_t>(
      std::lower_bound(begins_.begin(), begins_.end(), time) - begins_.begin());
  // Marks end where they begin, so only the one before may reach over `time`.
  return found > 0 && end(found - 1) > time ? found - 1 : found;
}

std::size_t Track::at(Ns time) const {
  const std::size_t span = first_after(time);
  return span < size() && begins_[span] <= time ? span : size();
}

Ns Track::busy(TimeRange range) const {
  const std::size_t first = first_after(range.begin);
  if (first == size() || begins_[first] >= range.end || sums_.empty()) return 0;
  const std::size_t last = first_from(first, range.end);
  return sums_[last] - sums_[first] - std::max<Ns>(range.begin - begins_[first], 0) -
         std::max<Ns>(end(last - 1) - range.end, 0);
}

std::size_t Track::longest(std::size_t first, std::size_t last) const {
  if (sums_.empty()) return first;
  return longest_.find(first, last, [this](std::size_t span) { return length(span); });
}

}  // namespace foregather::gui
