// Tokens of one line of a printed Thunder trace: Python's, as far as such traces use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace foregather::traces {

enum class ThunderTokenKind : std::uint8_t {
  end,  ///< of the line
  name,
  number,
  text,     ///< with its quotes
  symbol,   ///< one character, or "..."
  comment,  ///< from '#' to the end of the line
  bad,      ///< a text without an end
};

struct ThunderToken {
  ThunderTokenKind kind = ThunderTokenKind::end;
  std::string_view text;  ///< part of the line

  bool is(char symbol) const {
    return kind == ThunderTokenKind::symbol && text.size() == 1 && text.front() == symbol;
  }
  bool is_name(std::string_view name) const {
    return kind == ThunderTokenKind::name && text == name;
  }
};

/// Walks over a line that it borrows; tokens point into it. A backslash before a line end is a
/// space. One token of look-ahead, no allocation, linear.
class ThunderLexer {
 public:
  explicit ThunderLexer(std::string_view line) : line_(line) { advance(); }

  const ThunderToken& token() const { return token_; }
  void advance();
  /// Of the current token in the line.
  std::size_t offset() const { return static_cast<std::size_t>(token_.text.data() - line_.data()); }
  /// From a token of this line to the end of the token before the current one.
  std::string_view since(const char* begin) const {
    return {begin, static_cast<std::size_t>(last_end_ - begin)};
  }

 private:
  void skip_spaces();
  std::size_t end_of_name() const;
  std::size_t end_of_number() const;
  std::size_t end_of_text() const;

  std::string_view line_;
  std::size_t at_ = 0;
  const char* last_end_ = nullptr;
  ThunderToken token_;
};

}  // namespace foregather::traces
