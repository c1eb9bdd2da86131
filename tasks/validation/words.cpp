#include "tasks/validation/words.h"

#include <algorithm>
#include <iterator>

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

}  // namespace foregather::tasks
