// Texts compared without regard to case (of ASCII letters).
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace foregather::gui {

inline char lowered(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline std::string lowered(std::string text) {
  for (char& c : text) c = lowered(c);
  return text;
}

/// Does `text` hold what is in lower case already?
inline bool holds_text(std::string_view text, std::string_view low) {
  return std::search(text.begin(), text.end(), low.begin(), low.end(),
                     [](char a, char b) { return lowered(a) == b; }) != text.end();
}

}  // namespace foregather::gui
