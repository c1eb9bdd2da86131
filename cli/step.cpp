#include "cli/step.h"

#include <charconv>

namespace foregather::cli {

Result<std::optional<std::int64_t>> parse_step(const std::string& text) {
  if (text.empty()) return std::nullopt;
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < 0)
    return fail_at("--step", "'{}' is no number of a step", text);
  return number;
}

}  // namespace foregather::cli
