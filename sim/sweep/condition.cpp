#include "sim/sweep/condition.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <functional>
#include <utility>

#include "core/plan/key_values.h"
#include "core/plan/workload_keys.h"

namespace foregather::sim {
namespace {

std::string place_of(std::size_t column) { return fmt::format("--where:{}", column); }

std::string no_number(std::string_view text) {
  return text.empty() ? "a key without a value is not more or less: say what is to become of it, "
                        "as in KEY == '' || KEY < 8"
                      : fmt::format("'{}' is no number, and only numbers are more or less", text);
}

constexpr double kRounding = 1e-15;  // of sums and products of doubles, relative

bool is_whole(double value) {
  return std::abs(value - std::round(value)) <= kRounding * std::abs(value);
}

// Decimal numbers are what they are written as, 0.3 % 0.1 is 0: exact in units of their last digit.
template <class Operation>
double in_decimals(double a, double b, Operation operation) {
  constexpr double kMost = 1e12;  // far from where doubles are all whole
  for (double scale = 1; scale <= kMost; scale *= 10) {
    const double x = a * scale, y = b * scale;
    if (!(std::max(std::abs(x), std::abs(y)) < kMost)) break;
    if (is_whole(x) && is_whole(y)) return operation(std::round(x), std::round(y)) / scale;
  }
  return operation(a, b);
}

// "25MiB", as keys of bytes take it.
std::optional<double> size_written(const std::string& text) {
  constexpr Bytes kMost = Bytes{1} << 53;
  const bool may_be = text.ends_with('B') && text.front() >= '0' && text.front() <= '9';
  if (!may_be) return std::nullopt;
  const auto size = plan::to_bytes({text, true}, 0, kMost);
  return size ? std::optional(static_cast<double>(*size)) : std::nullopt;
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == ':';
}

}  // namespace

/// Recursive descent, one function a level of precedence.
class ConditionParser {
 public:
  using Kind = Condition::Kind;

  ConditionParser(const std::string& text,
                  const std::function<std::optional<std::size_t>(std::string_view)>& column_of)
      : text_(text), column_of_(column_of) {}

  Result<Condition> parse() {
    const auto whole = either();
    if (!whole) return tl::unexpected(whole.error());
    skip();
    if (at_ < text_.size() && text_[at_] == '=')
      return fail_at(place_of(at_ + 1), "'=' compares nothing, did you mean '=='?");
    if (at_ != text_.size())
      return fail_at(place_of(at_ + 1), "'{}' is not expected here", text_.substr(at_, 20));
    return std::move(condition_);
  }

 private:
  struct Operator {
    std::string_view text;
    Kind kind;
  };
  using Level = Result<std::size_t> (ConditionParser::*)();

  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }

  // A sign, or a word that ends there.
  bool take(std::string_view sign) {
    skip();
    const std::string_view rest = std::string_view(text_).substr(at_);
    if (!rest.starts_with(sign)) return false;
    const bool is_name = std::isalpha(static_cast<unsigned char>(sign.front())) != 0;
    if (is_name && rest.size() > sign.size() && is_word(rest[sign.size()])) return false;
    at_ += sign.size();
    return true;
  }

  std::size_t add(Kind kind, std::size_t left, std::size_t right, std::size_t place,
                  std::string text = {}, bool is_bare = false) {
    condition_.nodes_.push_back({kind, left, right, std::move(text), place, is_bare});
    return condition_.nodes_.size() - 1;
  }

  template <std::size_t N>
  Result<std::size_t> chain(Level next, const std::array<Operator, N>& operators) {
    auto left = (this->*next)();
    while (left) {
      skip();
      const std::size_t place = at_ + 1;
      const Operator* found = nullptr;
      for (const Operator& each : operators)
        if (found == nullptr && take(each.text)) found = &each;
      if (found == nullptr) break;
      // A chain is as deep as it is long, and evaluated by recursion.
      if (++operators_ > kMostOperators)
        return fail_at(place_of(place), "more than {} operators with two sides", kMostOperators);
      const auto right = (this->*next)();
      if (!right) return right;
      left = add(found->kind, *left, *right, place);
    }
    return left;
  }

  Result<std::size_t> either() {
    constexpr std::array kSigns{Operator{"||", Kind::either}, Operator{"or", Kind::either}};
    return chain(&ConditionParser::both, kSigns);
  }
  Result<std::size_t> both() {
    constexpr std::array kSigns{Operator{"&&", Kind::both}, Operator{"and", Kind::both}};
    return chain(&ConditionParser::opposite, kSigns);
  }
  Result<std::size_t> opposite() {
    skip();
    const std::size_t place = at_ + 1;
    const bool is_sign = !std::string_view(text_).substr(at_).starts_with("!=") && take("!");
    if (!is_sign && !take("not")) return compared();
    if (++depth_ > kDeepest) return too_deep();
    const auto inner = opposite();
    --depth_;
    return inner ? Result<std::size_t>(add(Kind::opposite, *inner, 0, place)) : inner;
  }
  Result<std::size_t> compared() {
    constexpr std::array kSigns{Operator{"==", Kind::equal},   Operator{"!=", Kind::unequal},
                                Operator{"<=", Kind::at_most}, Operator{">=", Kind::at_least},
                                Operator{"<", Kind::less},     Operator{">", Kind::more}};
    auto whole = chain(&ConditionParser::sum, kSigns);
    if (!whole) return whole;
    const Condition::Node& node = condition_.nodes_[*whole];
    if (!is_comparison(node.kind)) return whole;
    if (is_comparison(condition_.nodes_[node.left].kind) &&
        !condition_.nodes_[node.left].is_enclosed)
      return fail_at(place_of(node.place),
                     "a second comparison in a row: expected '&&' and what it compares");
    if (const Status named = check_names(node); !named) return tl::unexpected(named.error());
    return whole;
  }

  static bool is_comparison(Kind kind) { return kind >= Kind::equal && kind <= Kind::at_least; }

  // Of two operands that are written out, a bare word is a key that has no value.
  Status check_names(const Condition::Node& comparison) const {
    const Condition::Node& left = condition_.nodes_[comparison.left];
    const Condition::Node& right = condition_.nodes_[comparison.right];
    if (left.kind != Kind::text || right.kind != Kind::text) return {};
    for (const Condition::Node& each : {left, right})
      if (each.is_bare && !Condition::value_of(each.text).number) return without_value(each);
    return {};
  }
  Result<std::size_t> sum() {
    constexpr std::array kSigns{Operator{"+", Kind::plus}, Operator{"-", Kind::minus}};
    return chain(&ConditionParser::product, kSigns);
  }
  Result<std::size_t> product() {
    constexpr std::array kSigns{Operator{"*", Kind::times}, Operator{"/", Kind::divided},
                                Operator{"%", Kind::remainder}};
    return chain(&ConditionParser::negative, kSigns);
  }
  Result<std::size_t> negative() {
    skip();
    const std::size_t place = at_ + 1;
    if (!take("-")) return operand();
    if (++depth_ > kDeepest) return too_deep();
    const auto inner = negative();
    --depth_;
    return inner ? Result<std::size_t>(add(Kind::negative, *inner, 0, place)) : inner;
  }

  Result<std::size_t> operand() {
    skip();
    const std::size_t begin = at_;
    if (at_ == text_.size())
      return fail_at(place_of(at_ + 1), "the condition ends, expected a key, a number or a text");
    if (take("(")) {
      if (++depth_ > kDeepest) return too_deep();
      const auto inner = either();
      --depth_;
      if (!inner) return inner;
      if (!take(")"))
        return fail_at(place_of(at_ + 1), "expected ')' for the '(' at {}", begin + 1);
      condition_.nodes_[*inner].is_enclosed = true;
      return inner;
    }
    const char quote = text_[at_];
    if (quote == '\'' || quote == '"') {
      const auto end = text_.find(quote, at_ + 1);
      if (end == std::string::npos) return fail_at(place_of(begin + 1), "the quote has no end");
      at_ = end + 1;
      return add(Kind::text, 0, 0, begin + 1, text_.substr(begin + 1, end - begin - 1));
    }
    return word(begin);
  }

  // Keys of passes have dashes (what-if.dedup-shared-params), which also subtract: the longest name
  // that is a key is meant.
  // As in 1.5e-3.
  bool is_sign_of_exponent(std::size_t begin, std::size_t at) const {
    const auto is_digit = [this](std::size_t i) {
      return i < text_.size() && std::isdigit(static_cast<unsigned char>(text_[i])) != 0;
    };
    return (text_[at] == '-' || text_[at] == '+') && at > begin + 1 && is_digit(begin) &&
           (text_[at - 1] == 'e' || text_[at - 1] == 'E') && is_digit(at + 1);
  }

  Result<std::size_t> word(std::size_t begin) {
    std::size_t end = begin;
    while (end < text_.size() && (is_word(text_[end]) || is_sign_of_exponent(begin, end))) ++end;
    std::size_t longest = end;
    while (longest < text_.size() && (is_word(text_[longest]) || text_[longest] == '-')) ++longest;
    for (std::size_t stop = longest; stop > begin; --stop) {
      const auto column = column_of_(std::string_view(text_).substr(begin, stop - begin));
      if (!column || (stop < end)) continue;
      at_ = stop;
      return add(Kind::column, *column, 0, begin + 1);
    }
    if (end == begin)
      return fail_at(place_of(begin + 1),
                     "'{}' is not expected here, expected a key, a number or "
                     "a text",
                     text_[begin]);
    // From a word that is no number nothing is subtracted: bf16-mixed.
    if (!Condition::value_of(text_.substr(begin, end - begin)).number)
      while (end < longest &&
             (is_word(text_[end]) || (end + 1 < longest && is_word(text_[end + 1]))))
        ++end;
    at_ = end;
    const std::string name = text_.substr(begin, end - begin);
    const Condition::Node bare{Kind::text, 0, 0, name, begin + 1, true};
    const bool is_number = std::isdigit(static_cast<unsigned char>(name.front())) != 0 ||
                           Condition::value_of(name).number;
    if (!is_number && name.find('.') != std::string::npos) return without_value(bare);
    return add(Kind::text, 0, 0, begin + 1, name, true);
  }

  static tl::unexpected<Error> without_value(const Condition::Node& word) {
    const bool is_key = plan::find_workload_key(word.text) != nullptr;
    const std::string likely = is_key ? "" : plan::likely_key(word.text);
    return fail_at(place_of(word.place),
                   "'{}' has no value here: expected a key that is varied, set, or in the source{}",
                   word.text,
                   likely.find("'" + word.text + "'") == std::string::npos ? likely : "");
  }

  tl::unexpected<Error> too_deep() {
    return fail_at(place_of(at_ + 1), "more than {} levels of parentheses and signs", kDeepest);
  }

  static constexpr int kDeepest = 100;
  static constexpr int kMostOperators = 1000;
  const std::string& text_;
  const std::function<std::optional<std::size_t>(std::string_view)>& column_of_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int operators_ = 0;
  Condition condition_;
};

Result<Condition> Condition::parse(
    const std::string& text,
    const std::function<std::optional<std::size_t>(std::string_view key)>& column_of) {
  return ConditionParser(text, column_of).parse();
}

tl::unexpected<Error> Condition::wrong(const Node& node, std::string_view what) const {
  return fail_at(place_of(node.place), "{}", what);
}

Condition::Value Condition::value_of(std::string text) {
  Value value;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(number))
    value.number = number;
  else
    value.number = size_written(text);
  value.text = std::move(text);
  return value;
}

Result<bool> Condition::truth(std::size_t node, std::span<const std::string> values) const {
  const auto value = evaluate(node, values);
  if (!value) return tl::unexpected(value.error());
  if (value->text == "true") return true;
  if (value->text == "false" || value->text.empty()) return false;
  if (value->number) return *value->number != 0;
  return wrong(nodes_[node], fmt::format("'{}' is neither true nor false", value->text));
}

Result<Condition::Value> Condition::evaluate(std::size_t at,
                                             std::span<const std::string> values) const {
  const Node& node = nodes_[at];
  const auto truth_value = [](bool holds) { return Value{holds ? "true" : "false", {}}; };
  switch (node.kind) {
    case Kind::text: return value_of(node.text);
    case Kind::column: return value_of(values[node.left]);
    case Kind::opposite:
      return truth(node.left, values).map([&](bool holds) { return truth_value(!holds); });
    case Kind::either:
    case Kind::both: {
      const auto left = truth(node.left, values);
      if (!left) return tl::unexpected(left.error());
      if (*left == (node.kind == Kind::either)) return truth_value(*left);
      return truth(node.right, values).map(truth_value);
    }
    default: break;
  }
  const auto left = evaluate(node.left, values);
  if (!left) return left;
  const auto right = node.kind == Kind::negative ? left : evaluate(node.right, values);
  if (!right) return right;
  const bool numbers = left->number && right->number;
  const double a = left->number.value_or(0), b = right->number.value_or(0);
  const bool are_whole = a == std::floor(a) && b == std::floor(b);
  const bool are_equal =
      a == b || (!are_whole && std::abs(a - b) <= kRounding * std::max(std::abs(a), std::abs(b)));
  const int order = !numbers ? left->text.compare(right->text) : are_equal ? 0 : a < b ? -1 : 1;
  const bool is_order = node.kind >= Kind::less && node.kind <= Kind::at_least;
  if (is_order && !numbers) return wrong(node, no_number(left->number ? right->text : left->text));
  switch (node.kind) {
    case Kind::equal: return truth_value(order == 0);
    case Kind::unequal: return truth_value(order != 0);
    case Kind::less: return truth_value(order < 0);
    case Kind::at_most: return truth_value(order <= 0);
    case Kind::more: return truth_value(order > 0);
    case Kind::at_least: return truth_value(order >= 0);
    default: break;
  }
  if (!numbers)
    return wrong(node, fmt::format("arithmetic on '{}', expected a number",
                                   left->number ? right->text : left->text));
  double result = 0;
  switch (node.kind) {
    case Kind::negative: result = -a; break;
    case Kind::plus: result = in_decimals(a, b, std::plus()); break;
    case Kind::minus: result = in_decimals(a, b, std::minus()); break;
    case Kind::times: result = a * b; break;
    default:
      if (b == 0) return wrong(node, "division by zero");
      result = node.kind == Kind::divided
                   ? a / b
                   : in_decimals(a, b, [](double x, double y) { return std::fmod(x, y); });
  }
  return Value{fmt::format("{}", result), result};
}

Result<bool> Condition::holds(std::span<const std::string> values) const {
  return truth(nodes_.size() - 1, values);
}

}  // namespace foregather::sim
