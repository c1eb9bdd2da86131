#include "traces/thunder_parser.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace foregather::traces {
namespace {

constexpr unsigned kMostDepth = 64;
constexpr unsigned kMostPostfixes = 64;

}  // namespace

// --- rows ---

ThunderName ThunderParser::name(std::string_view text) {
  if (text == "_") return ThunderFile::kUnderscore;
  const auto [found, is_new] = ids_.try_emplace(text, ThunderName(file_.names.size()));
  if (is_new) {
    file_.names.push_back(text);
    file_.name_types.emplace_back();
    file_.is_described.push_back(false);
  }
  return found->second;
}

std::uint32_t ThunderParser::push(Value::Kind kind, std::string_view text) {
  Value value;
  value.kind = kind;
  value.text = text;
  file_.values.push_back(value);
  return rows() - 1;
}

// Puts a parent over the expression that begins at `row`, the last one.
void ThunderParser::wrap(std::uint32_t row, Value::Kind kind, std::string_view text) {
  Value value;
  value.kind = kind;
  value.text = text;
  value.size = rows() - row + 1;
  file_.values.insert(file_.values.begin() + row, value);
}

bool ThunderParser::fail(std::string_view what) {
  failure_ = {lexer_.offset(), what};
  return false;
}

bool ThunderParser::expect(char symbol, std::string_view what) {
  if (!lexer_.token().is(symbol)) return fail(what);
  lexer_.advance();
  return true;
}

// --- expressions ---

// Separated by commas, of which one may be last.
bool ThunderParser::expressions() {
  bool had_comma = false;
  while (true) {
    if (!expression()) return false;
    had_comma_ = had_comma;
    if (!lexer_.token().is(',')) return true;
    lexer_.advance();
    had_comma_ = had_comma = true;
    const ThunderToken& token = lexer_.token();
    if (token.kind == ThunderTokenKind::end || token.kind == ThunderTokenKind::comment ||
        token.is('=') || token.is(']') || token.is_name("import") || token.is_name("from"))
      return true;
  }
}

bool ThunderParser::expression() {
  if (depth_ == kMostDepth) return fail("nests deeper than 64");
  ++depth_;
  const bool done = nested_expression();
  --depth_;
  return done;
}

bool ThunderParser::nested_expression() {
  while (lexer_.token().is('*') || lexer_.token().is('+')) lexer_.advance();
  const std::uint32_t row = rows();
  if (lexer_.token().is('-')) {
    lexer_.advance();
    if (!primary()) return false;
    Value& value = file_.values[row];
    value.integer = -value.integer;
  } else if (!primary()) {
    return false;
  }
  return postfix(row);
}

bool ThunderParser::primary() {
  const ThunderToken token = lexer_.token();
  switch (token.kind) {
    case ThunderTokenKind::name: return dotted();
    case ThunderTokenKind::number: return number();
    case ThunderTokenKind::text: {
      lexer_.advance();
      push(Value::Kind::constant, token.text);
      return true;
    }
    case ThunderTokenKind::bad: return fail("a text without an end");
    case ThunderTokenKind::end:
    case ThunderTokenKind::comment: return fail("the line ends, expected an expression");
    case ThunderTokenKind::symbol: break;
  }
  if (token.is('(')) return sequence(Value::Kind::tuple, ')');
  if (token.is('[')) return sequence(Value::Kind::list, ']');
  if (token.is('{')) return sequence(Value::Kind::dict, '}');
  if (token.is('<')) return skip_opaque('>');
  if (token.text == "...") {
    lexer_.advance();
    push(Value::Kind::constant, token.text);
    return true;
  }
  return fail("expected an expression");
}

// A name, a constant, or names with dots.
bool ThunderParser::dotted() {
  const std::string_view first = lexer_.token().text;
  lexer_.advance();
  bool has_dot = false;
  while (lexer_.token().is('.')) {
    lexer_.advance();
    if (lexer_.token().kind != ThunderTokenKind::name) return fail("expected a name after '.'");
    lexer_.advance();
    has_dot = true;
  }
  const bool is_constant = !has_dot && (first == "None" || first == "True" || first == "False");
  const std::uint32_t row = push(is_constant ? Value::Kind::constant
                                 : has_dot   ? Value::Kind::attribute
                                             : Value::Kind::name,
                                 lexer_.since(first.data()));
  if (is_constant) return true;
  if (!lexer_.token().is('(')) {
    const ThunderName id = name(first);
    file_.values[row].name = id;
    return true;
  }
  // The arguments become its children.
  file_.values[row].kind = Value::Kind::call;
  lexer_.advance();
  if (!items(')')) return false;
  close(row);
  return true;
}

bool ThunderParser::number() {
  const std::string_view text = lexer_.token().text;
  lexer_.advance();
  const std::uint32_t row = push(Value::Kind::constant, text);
  std::int64_t integer = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, integer);
  if (error != std::errc{} || stop != end) return true;
  file_.values[row].kind = Value::Kind::integer;
  file_.values[row].integer = integer;
  return true;
}

bool ThunderParser::sequence(Value::Kind kind, char last) {
  const std::uint32_t row = push(kind, lexer_.token().text);
  lexer_.advance();
  // "(object of type X)"
  if (kind == Value::Kind::tuple && lexer_.token().is_name("object")) {
    ThunderLexer ahead = lexer_;
    ahead.advance();
    if (ahead.token().is_name("of")) {
      file_.values.pop_back();
      return skip_opaque(')');
    }
  }
  if (!items(last)) return false;
  close(row);
  return true;
}

// Up to the closing bracket, which is taken.
bool ThunderParser::items(char last) {
  while (!lexer_.token().is(last)) {
    if (!item(last)) return false;
    if (lexer_.token().is(last)) break;
    if (lexer_.token().is(',') || (last == '}' && lexer_.token().is(':'))) {
      lexer_.advance();
      continue;
    }
    return fail(last == ')'   ? "expected ',' or ')'"
                : last == ']' ? "expected ',' or ']'"
                              : "expected ',' or '}'");
  }
  lexer_.advance();
  return true;
}

bool ThunderParser::item(char last) {
  if (last == ')' && lexer_.token().kind == ThunderTokenKind::name) {
    ThunderLexer ahead = lexer_;
    ahead.advance();
    if (ahead.token().is('=')) {
      const std::string_view keyword = lexer_.token().text;
      lexer_ = ahead;
      lexer_.advance();
      const std::uint32_t row = rows();
      if (!expression()) return false;
      file_.values[row].keyword = keyword;
      return true;
    }
  }
  return expression();
}

// Calls, subscripts and members of what begins at `row`.
bool ThunderParser::postfix(std::uint32_t row) {
  for (unsigned count = 0;; ++count) {
    const ThunderToken token = lexer_.token();
    if (!token.is('(') && !token.is('[') && !token.is('.')) return true;
    if (count == kMostPostfixes) return fail("more than 64 calls in a row");
    lexer_.advance();
    if (token.is('.')) {
      if (lexer_.token().kind != ThunderTokenKind::name) return fail("expected a name after '.'");
      wrap(row, Value::Kind::member, lexer_.token().text);
      lexer_.advance();
      continue;
    }
    // x.get(…): a call that is named after the member.
    if (token.is('(') && file_.values[row].kind == Value::Kind::member)
      file_.values[row].kind = Value::Kind::call;
    else
      wrap(row, token.is('(') ? Value::Kind::call : Value::Kind::subscript, "");
    if (token.is('[')) {
      while (!lexer_.token().is(']')) {
        if (lexer_.token().is(',') || lexer_.token().is(':')) {
          lexer_.advance();
          continue;
        }
        if (!expression()) return false;
      }
      lexer_.advance();
    } else if (!items(')')) {
      return false;
    }
    close(row);
  }
}

bool ThunderParser::skip_opaque(char last) {
  const char* const begin = lexer_.token().text.data();
  while (!lexer_.token().is(last)) {
    if (lexer_.token().kind == ThunderTokenKind::end ||
        lexer_.token().kind == ThunderTokenKind::bad)
      return fail(last == '>' ? "expected '>'" : "expected ')'");
    lexer_.advance();
  }
  lexer_.advance();
  push(Value::Kind::opaque, lexer_.since(begin));
  return true;
}

// --- statements ---

std::optional<ThunderParser::Failure> ThunderParser::statement(std::string_view line) {
  lexer_ = ThunderLexer(line);
  depth_ = 0;
  const std::size_t values = file_.values.size();
  const std::size_t targets = file_.targets.size();
  ThunderStatement statement;
  statement.values.first = static_cast<std::uint32_t>(values);
  statement.targets.first = static_cast<std::uint32_t>(targets);
  if (!parse(statement)) {
    file_.values.resize(values);
    file_.targets.resize(targets);
    return failure_;
  }
  statement.targets.count = static_cast<std::uint32_t>(file_.targets.size() - targets);
  file_.statements.push_back(statement);
  return std::nullopt;
}

bool ThunderParser::parse(ThunderStatement& statement) {
  const ThunderToken token = lexer_.token();
  if (token.is_name("del")) return parse_delete(statement);
  if (token.is_name("return")) {
    statement.kind = Kind::give_back;
    lexer_.advance();
    had_comma_ = false;
    const auto next = lexer_.token().kind;
    if (next != ThunderTokenKind::end && next != ThunderTokenKind::comment && !expressions())
      return false;
    // In a printed list of traces: its end, or the first line of the next trace.
    if (lexer_.token().is(']')) lexer_.advance();
    if (had_comma_ && (lexer_.token().is_name("import") || lexer_.token().is_name("from"))) {
      statement.values.count = rows() - statement.values.first;
      return true;
    }
    return end_line(statement);
  }
  if (token.kind == ThunderTokenKind::name) {
    ThunderLexer ahead = lexer_;
    ahead.advance();
    if (ahead.token().is(':')) return parse_typed(statement);
  }
  return parse_assign(statement);
}

bool ThunderParser::parse_delete(ThunderStatement& statement) {
  statement.kind = Kind::del;
  lexer_.advance();
  if (!expressions()) return false;
  const Range values{statement.values.first, rows() - statement.values.first};
  return take_targets(values, statement) && end_line(statement);
}

bool ThunderParser::parse_typed(ThunderStatement& statement) {
  statement.kind = Kind::typed_assign;
  const ThunderName target = name(lexer_.token().text);
  lexer_.advance();
  lexer_.advance();
  const ThunderToken type = lexer_.token();
  if (type.kind != ThunderTokenKind::text) return fail("expected a type in quotes");
  lexer_.advance();
  if (!expect('=', "expected '='") || !expressions()) return false;
  file_.targets.push_back(target);
  const ThunderTypeId described = describe(target, type.text);
  if (!end_line(statement)) return false;
  statement.type = described;
  return true;
}

// What is left of '=' or nothing: an expression that is called, or stands alone.
bool ThunderParser::parse_assign(ThunderStatement& statement) {
  if (!expressions()) return false;
  Range left{statement.values.first, rows() - statement.values.first};
  bool is_assign = false, is_unpack = false;
  while (lexer_.token().is('=')) {
    lexer_.advance();
    is_unpack |= had_comma_;
    if (!take_targets(left, statement)) return false;
    is_assign = true;
    left.first = rows();
    if (!expressions()) return false;
    left.count = rows() - left.first;
  }
  statement.values = left;
  const Value& value = file_.values[left.first];
  const bool is_call = value.kind == Value::Kind::call && value.size == left.count;
  if (!is_assign)
    statement.kind = is_call ? Kind::call : Kind::other;
  else if (statement.kind != Kind::set)
    statement.kind = is_call ? Kind::assign : is_unpack ? Kind::unpack : Kind::move;
  return end_line(statement);
}

// The names in an expression on the left.
bool ThunderParser::take_targets(Range values, ThunderStatement& statement) {
  for (std::uint32_t row = values.first; row < values.end(); ++row) {
    const Value& value = file_.values[row];
    switch (value.kind) {
      case Value::Kind::name: file_.targets.push_back(value.name); break;
      case Value::Kind::tuple:
      case Value::Kind::list: break;
      case Value::Kind::attribute:
      case Value::Kind::subscript:
      case Value::Kind::member:
        statement.kind = Kind::set;
        row += value.size - 1;
        break;
      default: return fail("expected names to assign to");
    }
  }
  return true;
}

bool ThunderParser::end_line(ThunderStatement& statement) {
  if (statement.kind == Kind::del)
    statement.values.count = 0;
  else
    statement.values.count = rows() - statement.values.first;
  const ThunderToken token = lexer_.token();
  if (token.kind != ThunderTokenKind::comment)
    return token.kind == ThunderTokenKind::end || fail("expected the end of the line");
  const auto typed = typed_name(token.text.substr(1));
  if (!typed) return true;
  const auto targets = std::span(file_.targets).subspan(statement.targets.first);
  if (std::find(targets.begin(), targets.end(), typed->name) != targets.end())
    statement.type = typed->type;
  return true;
}

// --- types ---

// The first description of a name counts. The text has its quotes.
ThunderTypeId ThunderParser::describe(ThunderName name, std::string_view quoted) {
  ThunderTypeId id;
  if (auto type = parse_thunder_type(quoted.substr(1, quoted.size() - 2))) {
    file_.types.push_back(std::move(*type));
    id = ThunderTypeId(file_.types.size() - 1);
  }
  if (!name) return id;
  if (!file_.is_described[name.row()]) file_.name_types[name.row()] = id;
  file_.is_described[name.row()] = true;
  return id;
}

std::optional<ThunderParser::TypedName> ThunderParser::typed_name(std::string_view comment) {
  ThunderLexer lexer(comment);
  if (lexer.token().kind != ThunderTokenKind::name) return std::nullopt;
  const std::string_view text = lexer.token().text;
  lexer.advance();
  if (!lexer.token().is(':')) return std::nullopt;
  lexer.advance();
  const ThunderToken quoted = lexer.token();
  if (quoted.kind != ThunderTokenKind::text || quoted.text.front() != '"') return std::nullopt;
  const ThunderName id = name(text);
  return TypedName{id, describe(id, quoted.text)};
}

// --- definitions ---

std::optional<ThunderParser::Failure> ThunderParser::definition(std::string_view line) {
  lexer_ = ThunderLexer(line);
  depth_ = 0;
  lexer_.advance();
  ThunderFunction function;
  if (lexer_.token().kind != ThunderTokenKind::name) {
    fail("expected the name of a function");
    return failure_;
  }
  function.name = lexer_.token().text;
  lexer_.advance();
  const std::size_t values = file_.values.size();
  bool done = expect('(', "expected '('");
  while (done && !lexer_.token().is(')')) {
    done = parameter(function);
    if (done && lexer_.token().is(','))
      lexer_.advance();
    else if (done && !lexer_.token().is(')'))
      done = fail("expected ',' or ')'");
  }
  file_.values.resize(values);
  if (!done) {
    // The function counts, with the parameters that are there.
    file_.functions.push_back(std::move(function));
    return failure_;
  }
  file_.functions.push_back(std::move(function));
  return std::nullopt;
}

bool ThunderParser::parameter(ThunderFunction& function) {
  ThunderParameter parameter;
  while (lexer_.token().is('*')) {
    if (++parameter.stars > 2) return fail("expected a name");
    lexer_.advance();
  }
  // A bare '*' or '/' names nothing.
  if (lexer_.token().is('/')) {
    lexer_.advance();
    return true;
  }
  if (lexer_.token().kind != ThunderTokenKind::name)
    return (parameter.stars == 1 && lexer_.token().is(',')) || fail("expected a name");
  parameter.name = name(lexer_.token().text);
  lexer_.advance();
  if (parameter.name) function.parameters.push_back(parameter);
  if (lexer_.token().is(':')) {
    lexer_.advance();
    if (!expression()) return false;
  }
  if (!lexer_.token().is('=')) return true;
  lexer_.advance();
  return expression();
}

}  // namespace foregather::traces
