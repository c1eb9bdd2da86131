// The top level of a JSON text of any length: big arrays arrive in windows, the rest as one object.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "traces/text_source.h"

namespace foregather::traces {

/// Some consecutive elements of an array.
struct JsonWindow {
  std::string_view key;   ///< of the array in the top-level object; "" for an array at the top
  std::string_view text;  ///< "[ELEMENT, …]", with kJsonPadding readable bytes behind it
  /// Where each element begins in `text`; the last one is where they end, behind a comma or at "]".
  std::vector<std::size_t> starts;
};

inline constexpr std::size_t kJsonPadding = 64;

/// What lies around the arrays.
struct JsonTop {
  bool is_array = false;          ///< the top is an array
  std::string object = "{}";      ///< the top-level object without the arrays that were streamed
  std::vector<std::string> keys;  ///< of the top-level object, as written, in order
  bool is_cut = false;            ///< an array at the top that has no end, as some tools leave it
  bool has_cut_element = false;   ///< … whose last element is cut, and was not visited
  Bytes bytes = 0;                ///< of the text
};

/// Which arrays are streamed, and to where.
struct JsonArrays {
  std::vector<std::string_view> keys;  ///< of the top-level object; an array at the top always is
  std::function<Status(const JsonWindow&)> visit;
};

/// Splits a text at the elements of its arrays. It follows only strings and brackets: what is wrong
/// inside an element is for the reader of the window to find, and costs that element alone. Names
/// that some tools do not escape: a string with a raw line end goes on where the next line looks
/// like text, and ends where it begins like JSON (a stray quote then costs its own line).
///
/// One pass with bounded memory: 1 MiB, or the longest element. Errors, with `path`:LINE:COL: a
/// text that is no JSON object or array, or ends inside one; an element or a top-level value of
/// more than 64 MiB; those of `source` and of the visitor.
Result<JsonTop> read_json(TextSource& source, const std::string& path, const JsonArrays& arrays);

}  // namespace foregather::traces
