#include "core/ir/dump_lexer.h"

#include <algorithm>
#include <charconv>

namespace foregather {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

bool DumpLexer::next_line() {
  while (next_ < text_.size()) {
    line_begin_ = at_ = next_;
    ++line_;
    line_end_ = text_.find('\n', at_);
    if (line_end_ == std::string_view::npos) line_end_ = text_.size();
    next_ = line_end_ + 1;
    if (line_end_ > at_ && text_[line_end_ - 1] == '\r') --line_end_;
    mark();
    if (at_ != line_end_ && text_[at_] != '#') return true;
  }
  return false;
}

void DumpLexer::skip_spaces() {
  while (at_ != line_end_ && text_[at_] == ' ') ++at_;
}

bool DumpLexer::more() {
  if (failed()) return false;
  if (at_ != line_end_ && at_ != line_begin_ && text_[at_] != ' ' && text_[at_ - 1] != ' ') {
    mark();
    fail("expected a space or the end of the line");
    return false;
  }
  skip_spaces();
  return at_ != line_end_;
}

void DumpLexer::mark() {
  skip_spaces();
  marked_ = at_;
}

std::string_view DumpLexer::symbol() {
  mark();
  while (at_ != line_end_ && (is_lower(text_[at_]) || is_digit(text_[at_]) || text_[at_] == '_'))
    ++at_;
  if (at_ == marked_) fail("expected a word of small letters");
  return text_.substr(marked_, at_ - marked_);
}

std::int64_t DumpLexer::number(std::int64_t least, std::int64_t most) {
  skip_spaces();
  std::int64_t value = 0;
  const char* const begin = text_.data() + at_;
  const auto [end, code] = std::from_chars(begin, text_.data() + line_end_, value);
  if (code == std::errc() && value >= least && value <= most) {
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }
  marked_ = at_;
  if (code == std::errc::invalid_argument)
    fail("expected a number from {} to {}", least, most);
  else
    fail("{} is out of range, expected a number from {} to {}", std::string_view(begin, end), least,
         most);
  return least;
}

char DumpLexer::peek_id() {
  skip_spaces();
  std::size_t at = at_;
  if (at == line_end_ || !is_lower(text_[at])) return 0;
  for (++at; at != line_end_ && is_digit(text_[at]);) ++at;
  const bool is_id = at > at_ + 1 && (at == line_end_ || text_[at] == ' ');
  return is_id ? text_[at_] : '\0';
}

std::uint32_t DumpLexer::id(char letter, const char* what) {
  skip_spaces();
  const std::size_t begin = at_;
  std::uint64_t row = 0;
  if (at_ != line_end_ && text_[at_] == letter) {
    ++at_;
    const std::size_t digits = at_;
    while (at_ != line_end_ && is_digit(text_[at_]) && at_ - digits < 11)
      row = row * 10 + static_cast<std::uint64_t>(text_[at_++] - '0');
    constexpr std::uint64_t kMostRows = 1U << 31;
    if (at_ != digits && row < kMostRows) return static_cast<std::uint32_t>(row);
  }
  marked_ = at_ = begin;
  fail("expected {}, as {}0 to {}2147483647", what, letter, letter);
  return 0;
}

bool DumpLexer::take(char symbol) {
  if (at_ == line_end_ || text_[at_] != symbol) return false;
  ++at_;
  return true;
}

void DumpLexer::expect(char symbol) {
  if (take(symbol)) return;
  marked_ = at_;
  fail("expected '{}'", symbol);
}

bool DumpLexer::peek_text() {
  skip_spaces();
  return at_ != line_end_ && text_[at_] == '"';
}

std::string_view DumpLexer::quoted() {
  mark();
  if (!take('"')) {
    fail("expected a quoted text");
    return {};
  }
  const std::size_t begin = at_;
  while (at_ != line_end_ && text_[at_] != '"' && text_[at_] != '\\') ++at_;
  if (take('"')) return text_.substr(begin, at_ - 1 - begin);
  unescaped_.assign(text_.substr(begin, at_ - begin));
  while (at_ != line_end_) {
    const char c = text_[at_++];
    if (c == '"') return unescaped_;
    if (c != '\\') {
      unescaped_ += c;
      continue;
    }
    const char escaped = at_ == line_end_ ? '\0' : text_[at_++];
    const int high = escaped == 'x' && line_end_ - at_ >= 2 ? hex_digit(text_[at_]) : -1;
    const int low = high >= 0 ? hex_digit(text_[at_ + 1]) : -1;
    if (escaped == '"' || escaped == '\\') {
      unescaped_ += escaped;
    } else if (escaped == 'n') {
      unescaped_ += '\n';
    } else if (escaped == 't') {
      unescaped_ += '\t';
    } else if (low >= 0) {
      unescaped_ += static_cast<char>(high * 16 + low);
      at_ += 2;
    } else {
      fail("unknown escape in a text, expected \\\", \\\\, \\n, \\t or \\xHH");
      return {};
    }
  }
  fail("a text without its closing quote");
  return {};
}

void DumpLexer::expect_line_end() {
  if (!more()) return;
  mark();
  fail("'{}' is too much, expected the end of the line",
       printable(text_.substr(at_, line_end_ - at_)));
}

std::string DumpLexer::place() const {
  return fmt::format("{}:{}:{}", path_, std::max<std::size_t>(line_, 1), marked_ - line_begin_ + 1);
}

void DumpLexer::set_error(std::string message) {
  error_ = Error{place(), std::move(message), Fault::input};
}

std::string printable(std::string_view text) {
  std::string shown(text.substr(0, 40));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  if (shown.size() < text.size()) shown += "...";
  return shown;
}

}  // namespace foregather
