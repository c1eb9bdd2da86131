#include "gui/models/step_curve.h"

namespace foregather::gui {

void StepCurve::add(Ns time, Bytes value) {
  times_.push_back(times_.empty() ? time : std::max(time, times_.back()));
  values_.push_back(value);
}

void StepCurve::finish(Ns end) {
  end_ = end;
  highest_.build(size(), [this](std::size_t point) { return values_[point]; });
}

std::size_t StepCurve::at(Ns time) const {
  const auto next = std::upper_bound(times_.begin(), times_.end(), time);
  return next == times_.begin() ? size() : static_cast<std::size_t>(next - times_.begin()) - 1;
}

std::size_t StepCurve::after(std::size_t from, Ns time) const {
  const auto first = times_.begin() + static_cast<std::ptrdiff_t>(from);
  return static_cast<std::size_t>(std::lower_bound(first, times_.end(), time) - times_.begin());
}

std::size_t StepCurve::highest(std::size_t first, std::size_t last) const {
  return highest_.find(first, last, [this](std::size_t point) { return values_[point]; });
}

std::size_t StepCurve::highest(TimeRange range) const {
  range.end = std::min(range.end, end_);
  if (range.begin >= range.end) return size();
  const std::size_t before = at(range.begin);
  const std::size_t first = before == size() ? 0 : before;
  const std::size_t last = after(first, range.end);
  return first < last ? highest(first, last) : size();
}

}  // namespace foregather::gui
