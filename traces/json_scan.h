// Where a JSON value ends, found by brackets and strings alone, 64 bytes at a time.
#pragma once

#include <cstddef>
#include <string_view>

namespace foregather::traces {

/// Where the value that begins at `from` ends: at the first comma or closing bracket that no
/// bracket within it opened; text.size() where the text ends first. `from` is at least 1 and
/// outside strings.
std::size_t value_end(std::string_view text, std::size_t from);

/// The closing quote of the string that opens at `quote`, or text.size(). Names that some tools do
/// not escape: a raw line end closes the string where the next line begins like JSON.
std::size_t string_end(std::string_view text, std::size_t quote);

constexpr bool is_json_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/// The key whose first character is at `begin` and whose closing quote is in the text; of a key
/// with escapes nothing.
std::string_view plain_key(const char* begin);

std::size_t count_newlines(std::string_view text);

}  // namespace foregather::traces
