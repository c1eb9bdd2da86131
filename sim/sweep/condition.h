// Conditions on the points of a sweep: "parallel.world_size % 8 == 0 && train.precision != fp32".
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace foregather::sim {

/// An expression over the texts of keys. From weak to strong: `||` or `or`; `&&` or `and`; `!` or
/// `not`; `== != < <= > >=`; `+ -`; `* / %`; `-`; parentheses. Comparisons do not chain. Operands:
/// numbers; keys; texts, in quotes ('a' or "a") or as bare words that are no keys (`fsdp2`,
/// `bf16-mixed`), which are compared with something else than a number or a bare word. Texts that
/// are numbers, or sizes (`25MiB`), are compared as numbers; others are equal or not, and none is
/// more. "true" and "false" are texts, and alone stand for themselves. An empty text is what an
/// unset key has. Sums and remainders of decimal numbers are exact.
///
/// Cost: a few hundred nanoseconds an evaluation.
class Condition {
 public:
  /// `column_of` gives the number under which evaluation will have the value of a key; absent: it
  /// is no key. Errors: syntax, a word that has no value, at "--where:COLUMN".
  static Result<Condition> parse(
      const std::string& text,
      const std::function<std::optional<std::size_t>(std::string_view key)>& column_of);

  /// Do values, by number, meet it? Errors: arithmetic on a text, a text that is to be more or
  /// less, division by zero, at the operator.
  Result<bool> holds(std::span<const std::string> values) const;

 private:
  friend class ConditionParser;
  enum class Kind : std::uint8_t {
    text,
    column,
    negative,
    opposite,
    either,
    both,
    equal,
    unequal,
    less,
    at_most,
    more,
    at_least,
    plus,
    minus,
    times,
    divided,
    remainder
  };
  /// Operands are earlier nodes.
  struct Node {
    Kind kind = Kind::text;
    std::size_t left = 0, right = 0;  ///< `left` of a column: its number
    std::string text;
    std::size_t place = 0;     ///< column of the text, from 1
    bool is_bare = false;      ///< a text without quotes
    bool is_enclosed = false;  ///< by parentheses
  };
  struct Value {
    std::string text;
    std::optional<double> number;
  };
  static Value value_of(std::string text);
  Result<Value> evaluate(std::size_t node, std::span<const std::string> values) const;
  Result<bool> truth(std::size_t node, std::span<const std::string> values) const;
  tl::unexpected<Error> wrong(const Node& node, std::string_view what) const;

  std::vector<Node> nodes_;  ///< the last one is the whole
};

}  // namespace foregather::sim
