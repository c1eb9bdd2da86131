#include "core/base/printable.h"

#include <fmt/format.h>

#include <cstdint>

namespace foregather {
namespace {

// Of the code point of `length` bytes at `at`.
std::uint32_t decoded(std::string_view text, std::size_t at, std::size_t length) {
  constexpr std::uint32_t kLeadBits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  std::uint32_t code = static_cast<unsigned char>(text[at]) & kLeadBits[length];
  for (std::size_t i = 1; i < length; ++i)
    code = code << 6U | (static_cast<unsigned char>(text[at + i]) & 0x3FU);
  return code;
}

// C0, DEL and C1; separators of lines; marks, embeddings and isolates that turn text around; the
// byte order mark.
bool is_hidden(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 && lead <= 0xF4   ? 4
                             : lead >= 0xE0 && lead <= 0xEF ? 3
                             : lead >= 0xC2 && lead <= 0xDF ? 2
                                                            : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  const unsigned char second = byte(at + 1);
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
      (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F))
    return 0;
  return length;
}

std::string printable(std::string_view text, bool keeps_lines) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at++]));
      continue;
    }
    const std::uint32_t code = decoded(text, at, length);
    if (!is_hidden(code) || (code == '\n' && keeps_lines))
      shown += text.substr(at, length);
    else if (code == '\n')
      shown += "\\n";
    else if (code == '\r')
      shown += "\\r";
    else if (code == '\t')
      shown += "\\t";
    else if (code < 0x80)
      shown += fmt::format("\\x{:02x}", code);
    else
      shown += fmt::format("\\u{{{:x}}}", code);
    at += length;
  }
  return shown;
}

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  const std::size_t tail = most / 3;
  return std::string(text.substr(0, most - tail)) + "…" +
         std::string(text.substr(text.size() - tail));
}

}  // namespace foregather
