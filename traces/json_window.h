// Reading the elements of a window with simdjson, whatever one of them is.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "traces/json_stream.h"

namespace foregather::traces {

static_assert(kJsonPadding >= simdjson::SIMDJSON_PADDING);

/// The text of a key up to its closing quote; of a key with escapes nothing.
std::string_view key_of(simdjson::ondemand::field& field);

/// A parser and its buffers: make one a file.
class JsonWindowParser {
 public:
  /// Every element goes to `read(simdjson_result<value>)`, in order; where that returns false, to
  /// `damaged()`. One damaged element spoils the rest of a window for the parser, so those are read
  /// again one by one: a damaged one may be read twice.
  template <class Read, class Damaged>
  void read(const JsonWindow& window, const Read& read, const Damaged& damaged) {
    const std::size_t elements = window.starts.size() - 1;
    for (std::size_t i = read_all(window.text, read); i < elements; ++i) {
      const std::size_t begin = window.starts[i];
      const std::size_t end = i + 1 < elements ? window.starts[i + 1] - 1 : window.starts[i + 1];
      alone_.assign(1, '[').append(window.text, begin, end - begin);
      alone_ += ']';
      const std::size_t length = alone_.size();
      alone_.resize(length + kJsonPadding, ' ');
      if (read_all(std::string_view(alone_).substr(0, length), read) == 0) damaged();
    }
  }

 private:
  // How many elements could be read.
  template <class Read>
  std::size_t read_all(std::string_view text, const Read& read) {
    simdjson::ondemand::document document;
    simdjson::ondemand::array array;
    std::size_t n = 0;
    if (parser_.iterate(text.data(), text.size(), text.size() + kJsonPadding).get(document) !=
            simdjson::SUCCESS ||
        document.get_array().get(array) != simdjson::SUCCESS)
      return 0;
    for (auto element : array) {
      if (!read(std::move(element))) break;
      ++n;
    }
    return n;
  }

  simdjson::ondemand::parser parser_;
  std::string alone_;
};

}  // namespace foregather::traces
