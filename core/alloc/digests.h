// Digests of a replay, for comparing it with others.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>

#include "core/base/sha256.h"

namespace foregather::alloc {

/// A digest over decimal numbers.
class NumberDigest {
 public:
  /// The numbers with `between` between them and `end` behind them.
  template <std::size_t N>
  void add(const std::array<std::int64_t, N>& numbers, char between, char end) {
    std::array<char, 21 * N> text;
    char* at = text.data();
    for (const std::int64_t number : numbers) {
      at = std::to_chars(at, text.data() + text.size(), number).ptr;
      *at++ = between;
    }
    at[-1] = end;
    sha_.update({text.data(), static_cast<std::size_t>(at - text.data())});
  }
  std::string finish() { return sha_.finish(); }

 private:
  Sha256 sha_;
};

}  // namespace foregather::alloc
