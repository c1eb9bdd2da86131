#include "tasks/point_warnings.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/text.h"

namespace foregather::tasks {

void PointWarnings::add(std::vector<std::string> warnings) {
  constexpr std::size_t kMostTexts = 16;
  ++all_;
  std::ranges::sort(warnings);
  warnings.erase(std::unique(warnings.begin(), warnings.end()), warnings.end());
  warnings_ += std::ssize(warnings);
  for (std::string& text : warnings) ++points_[std::move(text)];
  while (points_.size() > kMostTexts) points_.erase(std::prev(points_.end()));
}

std::vector<std::string> PointWarnings::texts() const {
  std::vector<std::string> texts;
  std::int64_t left = warnings_;
  for (const auto& [text, points] : points_) {
    texts.push_back(
        fmt::format("{} of {} points: {}", format_count(points), format_count(all_), text));
    left -= points;
  }
  if (left > 0)
    texts.push_back(fmt::format("{} more warnings of points, of other texts", format_count(left)));
  return texts;
}

}  // namespace foregather::tasks
