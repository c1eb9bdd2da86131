// Text from outside, made safe to show.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace foregather {

/// Bytes of the UTF-8 code point at `at`, or 0 if none begins there: broken, overlong, a surrogate,
/// or beyond U+10FFFF.
std::size_t utf8_length(std::string_view text, std::size_t at);

/// One line that a terminal shows as it is: control characters, what turns the direction of text,
/// and bytes that are no UTF-8 become \n, \x1b, \u{202e}. Everything that is not from ourselves
/// (paths, keys, values, names) passes here before it is shown. `keeps_lines` leaves '\n' alone.
std::string printable(std::string_view text, bool keeps_lines = false);

/// The text itself, or its beginning and end around "…", `most` bytes of it: a place is at the
/// beginning of a message, a reason at the end.
std::string shortened(std::string_view text, std::size_t most);

}  // namespace foregather
