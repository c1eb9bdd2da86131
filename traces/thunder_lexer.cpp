#include "traces/thunder_lexer.h"

namespace foregather::traces {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
// Bytes of other alphabets in UTF-8 belong to names.
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

}  // namespace

void ThunderLexer::skip_spaces() {
  while (at_ < line_.size()) {
    const char c = line_[at_];
    if (c == '\\') {
      const std::size_t next = at_ + 1;
      const bool ends = next >= line_.size() || line_[next] == '\n' || line_[next] == '\r';
      if (!ends) return;
    } else if (c != ' ' && c != '\t' && c != '\r' && c != '\n') {
      return;
    }
    ++at_;
  }
}

std::size_t ThunderLexer::end_of_name() const {
  std::size_t end = at_ + 1;
  while (end < line_.size() && is_name_part(line_[end])) ++end;
  return end;
}

std::size_t ThunderLexer::end_of_number() const {
  std::size_t end = at_ + 1;
  while (end < line_.size()) {
    const char c = line_[end];
    const bool signs = (c == '+' || c == '-') && (line_[end - 1] == 'e' || line_[end - 1] == 'E') &&
                       end + 1 < line_.size() && is_digit(line_[end + 1]);
    if (!is_name_part(c) && c != '.' && !signs) break;
    ++end;
  }
  return end;
}

// Zero: it has no end.
std::size_t ThunderLexer::end_of_text() const {
  const char quote = line_[at_];
  for (std::size_t end = at_ + 1; end < line_.size(); ++end) {
    if (line_[end] == '\\')
      ++end;
    else if (line_[end] == quote)
      return end + 1;
  }
  return 0;
}

void ThunderLexer::advance() {
  last_end_ =
      token_.text.data() == nullptr ? line_.data() : token_.text.data() + token_.text.size();
  skip_spaces();
  const auto take = [&](ThunderTokenKind kind, std::size_t end) {
    token_ = {kind, line_.substr(at_, end - at_)};
    at_ = end;
  };
  if (at_ >= line_.size()) return take(ThunderTokenKind::end, at_);
  const char c = line_[at_];
  const bool fraction = c == '.' && at_ + 1 < line_.size() && is_digit(line_[at_ + 1]);
  if (is_name_start(c)) return take(ThunderTokenKind::name, end_of_name());
  if (is_digit(c) || fraction) return take(ThunderTokenKind::number, end_of_number());
  if (c == '#') return take(ThunderTokenKind::comment, line_.size());
  if (line_.substr(at_, 3) == "...") return take(ThunderTokenKind::symbol, at_ + 3);
  if (c != '\'' && c != '"') return take(ThunderTokenKind::symbol, at_ + 1);
  const std::size_t end = end_of_text();
  if (end == 0) return take(ThunderTokenKind::bad, line_.size());
  take(ThunderTokenKind::text, end);
}

}  // namespace foregather::traces
