#include "core/base/toml_depth.h"

#include <fmt/format.h>

namespace foregather {
namespace {

constexpr int kMostDots = 64;

// Past the string that begins at `at`; multi-line strings have three quotes at either end.
std::size_t after_toml_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string_view three = text.substr(at, 3);
  const bool multi_line = three.size() == 3 && three[1] == quote && three[2] == quote;
  at += multi_line ? 3 : 1;
  for (; at < text.size(); ++at) {
    if (text[at] == '\\' && quote == '"') {
      ++at;
    } else if (text[at] == '\n' && !multi_line) {
      return at;  // not closed: the parser will say so
    } else if (text[at] == quote) {
      if (!multi_line) return at + 1;
      if (text.substr(at, 3) == three) return at + 3;
    }
  }
  return text.size();
}

}  // namespace

Status check_toml_depth(std::string_view text, const std::string& path) {
  int line = 1;
  int dots = 0;
  for (std::size_t at = 0; at < text.size();) {
    switch (text[at]) {
      case '"':
      case '\'': {
        const std::size_t end = after_toml_string(text, at);
        for (; at < end; ++at) line += text[at] == '\n' ? 1 : 0;
        continue;
      }
      case '#': at = std::min(text.find('\n', at), text.size()); continue;
      case '.':
        if (++dots > kMostDots)
          return fail_at(fmt::format("{}:{}", path, line),
                         "a name of more than {} parts, expected fewer dots", kMostDots);
        break;
      case '\n':
        ++line;
        dots = 0;
        break;
      case '=':
      case ',':
      case '[':
      case ']':
      case '{':
      case '}': dots = 0; break;
      default: break;
    }
    ++at;
  }
  return {};
}

}  // namespace foregather
