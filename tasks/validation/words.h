// Words of free texts.
#pragma once

#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>

namespace foregather::tasks {

inline bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
inline bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

inline std::string lower(std::string_view text) {
  std::string all(text);
  for (char& c : all) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return all;
}

/// What people write into a cell whose number they do not have: "", "unknown", "n/a", "-".
bool is_no_number(std::string_view cell);

/// Blanks between words, one at a time: "Dual-Socket: 8xHDR" -> "Dual Socket 8x HDR".
std::string spaced(std::string_view text);

/// Does `phrase` stand in `text` by itself, both lower and spaced: "efa" not in "default", "roce"
/// in "rocev2", "hdr" in "hdr100", "gen 4" not in "gen 40"?
bool says(std::string_view text, std::string_view phrase);

/// Does lower `text` name `phrase` as something that is there? Not so, within its clause, behind
/// "without", "not", "baseline" and the like, or before "off", "disabled", "=False".
bool affirms(std::string_view text, std::string_view phrase);

template <std::size_t N>
bool says_any(std::string_view text, const std::string_view (&phrases)[N]) {
  for (const std::string_view phrase : phrases)
    if (says(text, phrase)) return true;
  return false;
}

}  // namespace foregather::tasks
