#include "profiler/recorded_window.h"

#include <algorithm>
#include <charconv>

namespace foregather::profiler {

RecordedWindow::RecordedWindow(const Settings& settings)
    : range_(settings.range),
      steps_(settings.steps),
      begin_(settings.delay > 0 ? settings.delay : -kForever) {
  if (settings.duration && *settings.duration < kForever - settings.delay)
    end_ = settings.delay + *settings.duration;
}

bool RecordedWindow::contains(std::int64_t time) const {
  if (time < begin_ || time >= end_) return false;
  if (range_.empty() && !steps_) return true;
  const std::lock_guard lock(mutex_);
  const auto after =
      std::upper_bound(stretches_.begin(), stretches_.end(), time,
                       [](std::int64_t at, const Stretch& stretch) { return at < stretch.begin; });
  return after != stretches_.begin() && time <= std::prev(after)->end;
}

bool RecordedWindow::is_trigger(std::string_view range) const {
  if (!range_.empty()) return range == range_;
  constexpr std::string_view kStep = "ProfilerStep#";
  if (!steps_ || !range.starts_with(kStep)) return false;
  std::int64_t number = 0;
  const auto [end, error] =
      std::from_chars(range.data() + kStep.size(), range.data() + range.size(), number);
  return error == std::errc() && number >= steps_->first && number <= steps_->second;
}

void RecordedWindow::opened(std::int64_t time) {
  const std::lock_guard lock(mutex_);
  if (open_++ > 0) return;
  if (stretches_.size() < kMostStretches)
    stretches_.push_back({time, kForever});
  else
    stretches_.back().end = kForever;
}

void RecordedWindow::closed(std::int64_t time) {
  const std::lock_guard lock(mutex_);
  if (open_ > 0 && --open_ == 0) stretches_.back().end = time;
}

}  // namespace foregather::profiler
