#include "traces/json_scan.h"

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace foregather::traces {
namespace {

constexpr std::size_t kBlock = 64;

enum CharClass : std::uint8_t { plain, quote, open, close, comma };

constexpr std::array<std::uint8_t, 256> kClasses = [] {
  std::array<std::uint8_t, 256> classes{};
  classes['"'] = quote;
  classes['{'] = classes['['] = open;
  classes['}'] = classes[']'] = close;
  classes[','] = comma;
  return classes;
}();

/// 64 bytes, a bit for each that is one of some characters.
class Block {
 public:
  explicit Block(const char* text)
      : a_(load(text)), b_(load(text + 16)), c_(load(text + 32)), d_(load(text + 48)) {}
  std::uint64_t equal(char c) const {
    return mask([c](__m128i bytes) { return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c)); });
  }
  /// Both brackets of a kind: '[' and '{' differ in one bit only, as ']' and '}' do.
  std::uint64_t either(char brace) const {
    return mask([brace](__m128i bytes) {
      return _mm_cmpeq_epi8(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), _mm_set1_epi8(brace));
    });
  }

 private:
  static __m128i load(const char* text) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(text));
  }
  static std::uint64_t bits(__m128i matches) {
    return static_cast<std::uint16_t>(_mm_movemask_epi8(matches));
  }
  template <class Compare>
  std::uint64_t mask(const Compare& compare) const {
    return bits(compare(a_)) | bits(compare(b_)) << 16U | bits(compare(c_)) << 32U |
           bits(compare(d_)) << 48U;
  }
  __m128i a_, b_, c_, d_;
};

// Bit k: an odd number of bits up to k.
std::uint64_t prefix_xor(std::uint64_t bits) {
  bits ^= bits << 1U;
  bits ^= bits << 2U;
  bits ^= bits << 4U;
  bits ^= bits << 8U;
  bits ^= bits << 16U;
  return bits ^ bits << 32U;
}

// Does the next line look like JSON, and not like the rest of a string?
bool is_end_of_line(std::string_view text, std::size_t i) {
  while (i < text.size() && is_json_space(text[i])) ++i;
  return i < text.size() &&
         std::string_view("\"{}[],-0123456789").find(text[i]) != std::string_view::npos;
}

class ValueScan {
 public:
  ValueScan(std::string_view text, std::size_t from) : text_(text), at_(from) {}

  std::size_t end() {
    while (at_ < text_.size()) {
      const bool is_ended = text_.size() - at_ < kBlock ? bytes(text_.size()) : block();
      if (is_ended) return std::min(at_, text_.size());
    }
    return text_.size();
  }

 private:
  // Both: does the value end before the block does? Then at_ is there, else behind the block.
  bool block() {
    const Block block(text_.data() + at_);
    const std::uint64_t in_string = prefix_xor(block.equal('"')) ^ inside_;
    if (block.equal('\\') != 0 || (block.equal('\n') & in_string) != 0) return bytes(at_ + kBlock);
    const std::uint64_t opens = block.either('{') & ~in_string;
    std::uint64_t brackets = opens | (block.either('}') & ~in_string);
    std::uint64_t commas = block.equal(',') & ~in_string;
    for (;;) {
      const int next = std::countr_zero(brackets);
      if (depth_ == 0 && std::countr_zero(commas) < next) {
        at_ += static_cast<std::size_t>(std::countr_zero(commas));
        return true;
      }
      if (brackets == 0) break;
      const std::uint64_t bit = brackets & -brackets;
      brackets ^= bit;
      commas &= ~(bit - 1);
      if ((opens & bit) != 0) {
        ++depth_;
      } else if (depth_-- == 0) {
        at_ += static_cast<std::size_t>(next);
        return true;
      }
    }
    inside_ = (in_string >> (kBlock - 1)) != 0 ? ~std::uint64_t{0} : 0;
    at_ += kBlock;
    return false;
  }

  // Strings with escapes and line ends: may go on behind `to`.
  bool bytes(std::size_t to) {
    if (inside_ != 0) at_ = string_end(text_, at_ - 1) + 1;
    inside_ = 0;
    for (; at_ < to; ++at_) switch (kClasses[static_cast<unsigned char>(text_[at_])]) {
        case plain: break;
        case quote: at_ = string_end(text_, at_); break;
        case open: ++depth_; break;
        case close:
          if (depth_-- == 0) return true;
          break;
        default:
          if (depth_ == 0) return true;
      }
    return false;
  }

  std::string_view text_;
  std::size_t at_;
  std::size_t depth_ = 0;
  std::uint64_t inside_ = 0;  // all bits: at_ is inside a string, and not behind a backslash
};

}  // namespace

std::size_t value_end(std::string_view text, std::size_t from) {
  return ValueScan(text, from).end();
}

std::size_t string_end(std::string_view text, std::size_t quote) {
  for (std::size_t i = quote + 1; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') return i;
    if (c == '\\') ++i;
    if (c == '\n' && is_end_of_line(text, i)) return i;
  }
  return text.size();
}

std::string_view plain_key(const char* begin) {
  const char* end = begin;
  while (*end != '"' && *end != '\\') ++end;
  return *end == '"' ? std::string_view(begin, static_cast<std::size_t>(end - begin)) : "";
}

std::size_t count_newlines(std::string_view text) {
  std::size_t n = 0;
  for (; text.size() >= kBlock; text.remove_prefix(kBlock))
    n += static_cast<std::size_t>(std::popcount(Block(text.data()).equal('\n')));
  return n + static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace foregather::traces
