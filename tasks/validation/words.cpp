#include "tasks/validation/words.h"

#include <algorithm>
#include <iterator>

#include "core/base/text.h"

namespace foregather::tasks {
namespace {

bool ends_phrase(std::string_view phrase, std::string_view rest) {
  if (rest.empty()) return true;
  if (is_digit(phrase.back())) return !is_digit(rest[0]);
  const bool is_version = rest[0] == 'v' && rest.size() > 1 && is_digit(rest[1]);
  return !is_letter(rest[0]) || is_version;
}

}  // namespace

bool is_no_number(std::string_view cell) {
  constexpr std::string_view kWords[] = {"",  "unknown", "not stated", "n/a", "na",
                                         "-", "–",       "none",       "oom", "?"};
  return std::ranges::find(kWords, lower(trimmed(cell))) != std::end(kWords);
}

std::string spaced(std::string_view text) {
  std::string all;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_blank = c == ' ' || c == '\t' || c == '-' || c == '_' || c == ':';
    if (!is_blank) all += c;
    const bool is_times = (c == 'x' || c == 'X') && i > 0 && is_digit(text[i - 1]);
    if ((is_blank || is_times) && !all.empty() && all.back() != ' ') all += ' ';
  }
  return all;
}

bool says(std::string_view text, std::string_view phrase) {
  for (auto at = text.find(phrase); at != std::string_view::npos; at = text.find(phrase, at + 1)) {
    const bool begins = at == 0 || (!is_letter(text[at - 1]) && !is_digit(text[at - 1]));
    if (begins && ends_phrase(phrase, text.substr(at + phrase.size()))) return true;
  }
  return false;
}

bool affirms(std::string_view text, std::string_view phrase) {
  constexpr std::string_view kEnds = ";,.|()";
  constexpr std::string_view kBefore[] = {"without", "w o",      "no",         "not",
                                          "non",     "never",    "before",     "than",
                                          "base",    "baseline", "instead of", "compared with"};
  constexpr std::string_view kBehind[] = {"off", "disabled", "false", "unavailable", "not", "only"};
  for (auto at = text.find(phrase); at != std::string_view::npos; at = text.find(phrase, at + 1)) {
    const std::string_view behind = text.substr(at + phrase.size());
    const std::string_view before = text.substr(0, at);
    const auto begin = before.find_last_of(kEnds);
    const std::string first =
        spaced(before.substr(begin == std::string_view::npos ? 0 : begin + 1));
    const std::string last = spaced(behind.substr(0, behind.find_first_of(kEnds)));
    if (!says_any(first, kBefore) && !says_any(last, kBehind)) return true;
  }
  return false;
}

}  // namespace foregather::tasks
