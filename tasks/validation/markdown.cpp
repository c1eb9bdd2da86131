#include "tasks/validation/markdown.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace foregather::tasks {
namespace {

std::string markdown_row(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

}  // namespace

std::string percent(std::optional<double> share) {
  return share ? fmt::format("{:.1f} %", 100 * *share) : std::string("–");
}

std::string signed_percent(std::optional<double> share) {
  return share ? fmt::format("{:+.1f} %", 100 * *share) : std::string("–");
}

std::string n_of_m(std::size_t n, std::size_t m) {
  return m == 0 ? std::string("–") : fmt::format("{} of {}", n, m);
}

std::string markdown_table(const std::vector<std::string>& heads,
                           const std::vector<std::vector<std::string>>& rows,
                           std::string_view align) {
  std::string text = markdown_row(heads) + "|";
  for (std::size_t i = 0; i < heads.size(); ++i)
    text += align[std::min(i, align.size() - 1)] == 'l' ? "---|" : "---:|";
  text += "\n";
  for (const auto& row : rows) text += markdown_row(row);
  return text;
}

}  // namespace foregather::tasks
