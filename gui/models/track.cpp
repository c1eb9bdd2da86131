#include "gui/models/track.h"

#include <cassert>

namespace foregather::gui {
void Track::reserve(std::size_t spans) {
  begins_.reserve(spans);
  sums_.reserve(spans + 1);
  items_.reserve(spans);
}

void Track::add(Ns begin, Ns end, std::uint32_t item) {
  assert(begins_.empty() || begin >= this->end(size() - 1));
  begins_.push_back(begin);
  sums_.push_back(sums_.back() + (end - begin));
  items_.push_back(item);
}

void Track::finish() {
  longest_.build(size(), [this](std::size_t span) { return length(span); });
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
  if (first == size() || begins_[first] >= range.end) return 0;
  const std::size_t last = first_from(first, range.end);
  return sums_[last] - sums_[first] - std::max<Ns>(range.begin - begins_[first], 0) -
         std::max<Ns>(end(last - 1) - range.end, 0);
}

std::size_t Track::longest(std::size_t first, std::size_t last) const {
  return longest_.find(first, last, [this](std::size_t span) { return length(span); });
}

}  // namespace foregather::gui
