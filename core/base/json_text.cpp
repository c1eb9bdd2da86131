#include "core/base/json_text.h"

#include <algorithm>
#include <map>
#include <vector>

namespace foregather {
namespace {

// Behind the string whose quote is at `at`.
std::size_t after_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}

// Behind the blanks and comments at `at`.
std::size_t after_blanks(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    if (text.substr(at, 2) == "//") {
      at = std::min(text.find('\n', at), text.size());
    } else if (text.substr(at, 2) == "/*") {
      const std::size_t end = text.find("*/", at + 2);
      at = end == std::string_view::npos ? text.size() : end + 2;
    } else if (std::string_view(" \t\r\n").find(text[at]) != std::string_view::npos) {
      ++at;
    } else {
      break;
    }
  }
  return at;
}

}  // namespace

std::string place_in_text(const std::string& path, std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_end = before.rfind('\n');
  const std::size_t start = line_end == std::string_view::npos ? 0 : line_end + 1;
  return fmt::format("{}:{}:{}", path, line, before.size() - start + 1);
}

Status check_unique_keys(std::string_view text, const std::string& path) {
  // Of each open object or array, its keys and their places.
  std::vector<std::map<std::string_view, std::size_t>> open;
  for (std::size_t at = after_blanks(text, 0); at < text.size(); at = after_blanks(text, at)) {
    const char c = text[at];
    if (c == '{' || c == '[') open.emplace_back();
    if ((c == '}' || c == ']') && !open.empty()) open.pop_back();
    if (c != '"') {
      ++at;
      continue;
    }
    const std::size_t end = after_string(text, at);
    const std::size_t next = after_blanks(text, end);
    if (next < text.size() && text[next] == ':' && !open.empty()) {
      const std::string_view key = text.substr(at + 1, end - at - 2);
      const auto [first, is_new] = open.back().emplace(key, at);
      if (!is_new) {
        constexpr std::size_t kLongest = 80;
        return fail_at(
            place_in_text(path, text, at),
            "the key \"{}\" is given twice in one object, expected once; the first is at "
            "{}",
            key.substr(0, kLongest), place_in_text(path, text, first->second));
      }
    }
    at = end;
  }
  return {};
}

std::string without_last_commas(std::string_view text) {
  std::string plain(text);
  for (std::size_t at = after_blanks(text, 0); at < text.size();) {
    const std::size_t next = after_blanks(text, text[at] == '"' ? after_string(text, at) : at + 1);
    if (text[at] == ',' && next < text.size() && (text[next] == '}' || text[next] == ']'))
      plain[at] = ' ';
    at = next;
  }
  return plain;
}

}  // namespace foregather
