#include "core/base/suggest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace foregather {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

constexpr char kBetweenParts = '_';

// Parts are told apart by one underscore.
std::string folded(std::string_view name) {
  std::string out;
  for (char c : name) {
    if (c == '-' || c == '.' || c == ' ') c = kBetweenParts;
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c != kBetweenParts || (!out.empty() && out.back() != kBetweenParts)) out += c;
  }
  if (out.ends_with(kBetweenParts)) out.pop_back();
  return out;
}

std::string joined(std::string folded_name) {
  std::erase(folded_name, kBetweenParts);
  return folded_name;
}

// Of folded names, smaller is better.
std::optional<int> rank_as_part(std::string_view word, std::string_view name) {
  const std::string parts = kBetweenParts + std::string(name) + kBetweenParts;
  const auto at = parts.find(kBetweenParts + std::string(word) + kBetweenParts);
  if (at != std::string::npos) return at == 0 ? 0 : 1;
  return name.starts_with(word) ? std::optional(2) : std::nullopt;
}

std::vector<std::string_view> names_with_part(std::string_view word,
                                              std::span<const std::string_view> candidates,
                                              std::span<const std::string> names) {
  constexpr std::size_t kLeastPart = 3, kMostNamed = 3;
  std::vector<std::string_view> found;
  int best = 2;
  for (std::size_t i = 0; i < names.size() && word.size() >= kLeastPart; ++i) {
    const auto rank = rank_as_part(word, names[i]);
    if (!rank || *rank > best) continue;
    if (*rank < best) found.clear();
    best = *rank;
    found.push_back(candidates[i]);
  }
  std::ranges::stable_sort(found, {}, &std::string_view::size);
  if (found.size() > kMostNamed) found.resize(kMostNamed);
  return found;
}

}  // namespace

std::vector<std::string_view> likely_names(std::string_view word,
                                           std::span<const std::string_view> candidates) {
  constexpr std::size_t kLongestWord = 256;
  if (word.size() > kLongestWord) return {};
  const std::string meant = folded(word);
  std::vector<std::string> names;
  for (const std::string_view candidate : candidates) names.push_back(folded(candidate));
  for (std::size_t i = 0; i < names.size(); ++i)
    if (joined(names[i]) == joined(meant)) return {candidates[i]};
  if (auto found = names_with_part(meant, candidates, names); !found.empty()) return found;
  std::vector<std::string_view> best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::size_t distance = edit_distance(meant, names[i]);
    if (distance >= best_distance) continue;
    best = {candidates[i]};
    best_distance = distance;
  }
  return best;
}

std::optional<std::string_view> nearest(std::string_view word,
                                        std::span<const std::string_view> candidates) {
  const auto found = likely_names(word, candidates);
  return found.empty() ? std::nullopt : std::optional(found.front());
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
  const auto found = likely_names(word, candidates);
  std::string text;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (i > 0) text += i + 1 < found.size() ? ", " : " or ";
    text += "'" + std::string(found[i]) + "'";
  }
  return text.empty() ? text : ", did you mean " + text + "?";
}

}  // namespace foregather
