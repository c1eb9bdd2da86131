// Statements of a printed Thunder trace. Internal to traces/thunder.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>

#include "traces/thunder.h"
#include "traces/thunder_lexer.h"

namespace foregather::traces {

/// Parses line after line into the rows of one file. A line that cannot be parsed leaves no rows.
class ThunderParser {
 public:
  explicit ThunderParser(ThunderFile& file) : file_(file) {}

  struct Failure {
    std::size_t offset = 0;  ///< in the line
    std::string_view what;
  };
  /// A statement without its indentation. Nothing: it was appended to file.statements.
  std::optional<Failure> statement(std::string_view line);
  /// "def NAME(…):"; nothing: it was appended to file.functions.
  std::optional<Failure> definition(std::string_view line);
  struct TypedName {
    ThunderName name;
    ThunderTypeId type;  ///< of a tensor
  };
  /// "NAME: "TYPE"" behind '#', whatever follows; nothing: it is something else.
  std::optional<TypedName> typed_name(std::string_view comment);

 private:
  using Value = ThunderValue;
  using Kind = ThunderStatement::Kind;

  ThunderName name(std::string_view text);
  ThunderTypeId describe(ThunderName name, std::string_view quoted);
  std::uint32_t rows() const { return static_cast<std::uint32_t>(file_.values.size()); }
  std::uint32_t push(Value::Kind kind, std::string_view text);
  void close(std::uint32_t row) { file_.values[row].size = rows() - row; }
  void wrap(std::uint32_t row, Value::Kind kind, std::string_view text);

  bool fail(std::string_view what);
  bool expect(char symbol, std::string_view what);
  // Each appends nodes and returns false after fail().
  bool expressions();
  bool expression();
  bool nested_expression();
  bool primary();
  bool dotted();
  bool number();
  bool sequence(Value::Kind kind, char last);
  bool items(char last);
  bool item(char last);
  bool postfix(std::uint32_t row);
  bool skip_opaque(char last);

  bool parse(ThunderStatement& statement);
  bool parse_delete(ThunderStatement& statement);
  bool parse_typed(ThunderStatement& statement);
  bool parse_assign(ThunderStatement& statement);
  bool take_targets(Range values, ThunderStatement& statement);
  bool end_line(ThunderStatement& statement);
  bool parameter(ThunderFunction& function);

  ThunderFile& file_;
  std::unordered_map<std::string_view, ThunderName> ids_;
  ThunderLexer lexer_{""};
  unsigned depth_ = 0;
  bool had_comma_ = false;  ///< between the last expressions() or behind them
  Failure failure_;
};

}  // namespace foregather::traces
