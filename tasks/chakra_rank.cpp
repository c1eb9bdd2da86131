#include "tasks/chakra_rank.h"

#include <charconv>

namespace foregather::tasks {
namespace {

constexpr std::string_view kDigits = "0123456789";

void cut_ending(std::string_view& name, std::string_view ending) {
  if (name.ends_with(ending)) name.remove_suffix(ending.size());
}

}  // namespace

std::optional<std::uint32_t> chakra_rank(std::string_view path) {
  std::string_view name = path.substr(path.find_last_of("/!") + 1);
  for (const std::string_view ending : {".gz", ".zst", ".et", ".eg", ".chakra", ".json"})
    cut_ending(name, ending);
  const auto last = name.find_last_of(kDigits);
  if (last == std::string_view::npos) return std::nullopt;
  const auto before = name.substr(0, last).find_last_not_of(kDigits);
  const std::size_t first = before == std::string_view::npos ? 0 : before + 1;
  std::uint32_t rank = 0;
  const auto [stop, error] = std::from_chars(&name[first], name.data() + last + 1, rank);
  if (error != std::errc{}) return std::nullopt;
  return rank;
}

}  // namespace foregather::tasks
