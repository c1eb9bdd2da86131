// Words, numbers and quoted texts of one dump, with the place of the first mistake.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace foregather {

/// Walks a text line by line, word by word. Words are separated by spaces.
///
/// Errors stick: the first failure is kept with its place, later ones are ignored, and every
/// method then returns a harmless value, so that callers look at failed() once a row. Linear; no
/// allocation but for quoted texts with escapes.
class DumpLexer {
 public:
  DumpLexer(std::string_view text, std::string_view path) : text_(text), path_(path) {}

  /// Moves to the next line that is neither blank nor a comment; false at the end of the text.
  bool next_line();
  /// True when the line has one more word and nothing failed; what was read last must be followed
  /// by a space or the end of the line.
  bool more();

  /// The letters, digits and underscores that come next; fails if there are none.
  std::string_view symbol();

  /// A number from `least` to `most`, up to the first byte that is not of a number.
  std::int64_t number(std::int64_t least, std::int64_t most);
  /// A row id such as "b12": the letter and a row number.
  std::uint32_t id(char letter, const char* what);
  /// The letter of a row id that comes next, 0 if the next word is not one.
  char peek_id();
  /// Consumes `symbol` if it comes next.
  bool take(char symbol);
  /// Consumes `symbol` or fails.
  void expect(char symbol);
  /// A quoted text comes next.
  bool peek_text();
  /// The quoted text that comes next, valid until the next call.
  std::string_view quoted();
  /// Fails unless the line has no more words.
  void expect_line_end();

  bool failed() const { return error_.has_value(); }
  /// Fails at the symbol, number, id or text that was read last.
  template <class... Args>
  void fail(fmt::format_string<Args...> format, Args&&... args) {
    if (!failed()) set_error(fmt::format(format, std::forward<Args>(args)...));
  }
  const Error& error() const { return *error_; }
  /// "FILE:LINE:COL" of what was read last.
  std::string place() const;

 private:
  void skip_spaces();
  void mark();
  void set_error(std::string message);

  std::string_view text_;
  std::string path_;
  std::size_t at_ = 0;
  std::size_t next_ = 0;  ///< begin of the next line
  std::size_t line_begin_ = 0;
  std::size_t line_end_ = 0;
  std::size_t line_ = 0;  ///< counts from 1
  std::size_t marked_ = 0;
  std::string unescaped_;
  std::optional<Error> error_;
};

/// At most 40 bytes of a text for a message, without control bytes.
std::string printable(std::string_view text);

}  // namespace foregather
