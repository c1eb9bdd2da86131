// Reading the elements of a window, whatever one of them is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "traces/json_stream.h"

namespace foregather::traces {

/// Every element goes to `read_all(text)`, which reads "[ELEMENT, …]" up to the first one that it
/// cannot read, and returns how many it could. One damaged element spoils the rest of a window for
/// a parser, so that those are read again one by one: a damaged one may be read twice, and then is
/// `damaged()`. `alone` is a buffer: keep one a file.
template <class ReadAll, class Damaged>
void read_window(const JsonWindow& window, std::string& alone, const ReadAll& read_all,
                 const Damaged& damaged) {
  const std::size_t elements = window.starts.size() - 1;
  for (std::size_t i = read_all(window.text); i < elements; ++i) {
    const std::size_t begin = window.starts[i];
    const std::size_t end = i + 1 < elements ? window.starts[i + 1] - 1 : window.starts[i + 1];
    alone.assign(1, '[').append(window.text, begin, end - begin);
    alone += ']';
    const std::size_t length = alone.size();
    alone.resize(length + kJsonPadding, ' ');
    if (read_all(std::string_view(alone).substr(0, length)) == 0) damaged();
  }
}

}  // namespace foregather::traces
