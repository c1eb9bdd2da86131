#include "profiler/settings.h"

#include <charconv>
#include <cstdlib>

namespace foregather::profiler {
namespace {

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

const std::vector<std::pair<std::string_view, Kind>>& kind_names() {
  static const std::vector<std::pair<std::string_view, Kind>> names{
      {"kernel", Kind::kernel},     {"memcpy", Kind::memcpy},        {"memset", Kind::memset},
      {"runtime", Kind::runtime},   {"driver", Kind::driver},        {"sync", Kind::sync},
      {"event", Kind::event},       {"overhead", Kind::overhead},    {"memory", Kind::memory},
      {"external", Kind::external}, {"graph", Kind::graph},          {"nvtx", Kind::nvtx},
      {"nccl", Kind::nccl},         {"nccl-steps", Kind::nccl_steps}};
  return names;
}

Kinds default_kinds() {
  Kinds kinds = 0;
  for (const auto& [name, kind] : kind_names())
    if (kind != Kind::graph && kind != Kind::nccl_steps) kinds |= static_cast<Kinds>(kind);
  return kinds;
}

std::optional<Kinds> parse_kinds(std::string_view text, std::string& unknown) {
  const bool changes = text.starts_with('+') || text.starts_with('-');
  Kinds kinds = changes ? default_kinds() : 0;
  while (true) {
    const std::size_t comma = text.find(',');
    std::string_view name = text.substr(0, comma);
    const bool is_minus = name.starts_with('-');
    if (is_minus || name.starts_with('+')) name.remove_prefix(1);
    Kinds found = 0;
    for (const auto& [known, kind] : kind_names())
      if (known == name) found = static_cast<Kinds>(kind);
    if (found == 0) {
      unknown = name;
      return std::nullopt;
    }
    kinds = is_minus ? kinds & ~found : kinds | found;
    if (comma == std::string_view::npos) return kinds;
    text.remove_prefix(comma + 1);
  }
}

std::optional<std::pair<std::int64_t, std::int64_t>> parse_steps(std::string_view text) {
  const std::size_t dots = text.find("..");
  const auto first = number(text.substr(0, dots));
  const auto last = dots == std::string_view::npos ? first : number(text.substr(dots + 2));
  if (!first || !last || *last < *first) return std::nullopt;
  return std::pair(*first, *last);
}

std::optional<Settings> settings_from_environment() {
  Settings settings;
  settings.directory = variable(kDirectoryVariable);
  if (settings.directory.empty()) return std::nullopt;
  if (const auto kinds = number(variable(kKindsVariable)))
    settings.kinds = static_cast<Kinds>(*kinds);
  settings.delay = number(variable(kDelayVariable)).value_or(0);
  settings.duration = number(variable(kDurationVariable));
  settings.range = variable(kRangeVariable);
  settings.steps = parse_steps(variable(kStepsVariable));
  settings.max_bytes = number(variable(kBytesVariable));
  settings.host_only = !variable(kHostOnlyVariable).empty();
  return settings;
}

}  // namespace foregather::profiler
