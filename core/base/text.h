// Text without its blanks, numbers for people, and columns that line up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"

namespace foregather {

/// Without the blanks (and ends of lines) at both ends.
std::string_view trimmed(std::string_view text);

/// "812 ns", "3.41 µs", "27.5 ms", "1.204 s": three to five digits.
std::string format_time(Ns time);
/// "512 B", "12.0 KiB", "79.15 GiB".
std::string format_bytes(Bytes size);
/// "8,030,261,248".
std::string format_count(std::int64_t count);

/// Rows of cells padded to columns. The first column is left aligned, the others right aligned.
class TextTable {
 public:
  void row(std::vector<std::string> cells);
  /// Lines with `indent` spaces in front, each ended by a newline.
  std::string text(std::size_t indent = 0) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace foregather
