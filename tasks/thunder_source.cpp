#include "tasks/thunder_source.h"

#include <fmt/format.h>

namespace foregather::tasks {

std::string_view thunder_head(std::string_view text) {
  constexpr std::size_t kHead = 65536;
  return text.substr(0, kHead);
}

std::vector<std::string> thunder_warnings(const traces::ThunderFile& file,
                                          const std::string& path) {
  constexpr std::size_t kMostLines = 5;
  std::vector<std::string> warnings;
  for (const traces::ThunderProblem& problem : file.problems) {
    if (warnings.size() == kMostLines) break;
    warnings.push_back(
        fmt::format("{}:{}:{}: not read: {}", path, problem.line, problem.column, problem.what));
  }
  const auto more = file.unparsed_lines - static_cast<std::int64_t>(warnings.size());
  if (more > 0) warnings.push_back(fmt::format("{}: {} more lines were not read", path, more));
  for (const traces::ThunderFunction& function : file.functions)
    if (!function.has_return)
      warnings.push_back(
          fmt::format("{}:{}:1: '{}' ends without a return", path, function.line, function.name));
  return warnings;
}

}  // namespace foregather::tasks
