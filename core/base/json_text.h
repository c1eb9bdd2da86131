// What a JSON parser does not tell.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace foregather {

/// "FILE:LINE:COL" of a byte of a text; columns count bytes from 1. An offset behind the end is the
/// end.
std::string place_in_text(const std::string& path, std::string_view text, std::size_t offset);

/// An error at the first key that an object has twice: parsers keep one of them without a word.
/// `text` is valid JSON, comments (// and /* */) and last commas allowed. Keys compare as they are
/// written. n log n.
Status check_unique_keys(std::string_view text, const std::string& path);

/// The text with a blank for each comma before a closing bracket, which Hjson allows; comments may
/// stand between.
std::string without_last_commas(std::string_view text);

}  // namespace foregather
