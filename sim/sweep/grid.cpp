#include "sim/sweep/grid.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

namespace foregather::sim {

/// A number that was written in decimals: value × 10^-digits.
struct RangeNumber {
  std::int64_t value = 0;
  int digits = 0;
};

/// "a..b", "a..b+s", "a..b*f" in its parts.
struct RangeText {
  RangeNumber first, last, by;
  char sign = '+';
};

namespace {

constexpr std::int64_t kMostFactors = 10'000;
constexpr int kMostDigits = 9;

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "-12", "0.25"; at most kMostDigits behind the point.
std::optional<RangeNumber> decimal(std::string_view text) {
  const auto point = text.find('.');
  if (point == std::string_view::npos) {
    const auto number = whole(text);
    return number ? std::optional(RangeNumber{*number, 0}) : std::nullopt;
  }
  const std::string_view fraction = text.substr(point + 1);
  if (fraction.empty() || fraction.size() > kMostDigits ||
      fraction.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  const auto number = whole(std::string(text.substr(0, point)) + std::string(fraction));
  return number ? std::optional(RangeNumber{*number, static_cast<int>(fraction.size())})
                : std::nullopt;
}

std::int64_t power_of_ten(int digits) {
  std::int64_t power = 1;
  for (int i = 0; i < digits; ++i) power *= 10;
  return power;
}

std::optional<std::int64_t> at_digits(RangeNumber number, int digits) {
  std::int64_t scaled = 0;
  if (__builtin_mul_overflow(number.value, power_of_ten(digits - number.digits), &scaled))
    return std::nullopt;
  return scaled;
}

// Without zeros at the end.
std::string shown(std::int64_t value, int digits) {
  if (digits == 0) return fmt::format("{}", value);
  const std::int64_t one = power_of_ten(digits);
  std::string text = fmt::format("{}{}.{:0{}}", value < 0 ? "-" : "", std::abs(value / one),
                                 std::abs(value % one), digits);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::optional<RangeText> range_of(std::string_view text) {
  const auto dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  std::string_view rest = text.substr(dots + 2);
  RangeText range;
  const auto sign = rest.find_first_of("*+", 1);
  const auto first = decimal(text.substr(0, dots)), last = decimal(rest.substr(0, sign));
  if (!first || !last) return std::nullopt;
  range.first = *first;
  range.last = *last;
  range.by = {1, 0};
  if (sign == std::string_view::npos) return range;
  range.sign = rest[sign];
  const auto by = decimal(rest.substr(sign + 1));
  if (!by) return std::nullopt;
  range.by = *by;
  return range;
}

}  // namespace

void Axis::push(Part part) {
  part.before = size_;
  size_ += part.size;
  parts_.push_back(std::move(part));
}

Status Axis::add_steps(std::string_view text, const RangeText& range) {
  const int digits = std::max({range.first.digits, range.last.digits, range.by.digits});
  const auto first = at_digits(range.first, digits), last = at_digits(range.last, digits),
             by = at_digits(range.by, digits);
  std::int64_t span = 0;
  if (!first || !last || !by || __builtin_sub_overflow(*last, *first, &span))
    return fail("the numbers of {} are too large", text);
  if (*by <= 0) return fail("{} never ends: expected a step above 0", text);
  if (span < 0) return fail("{} is empty: it begins above its end", text);
  const std::int64_t size = span / *by + 1;
  if (size > kMostPoints - size_) return fail("{} has more than {} values", text, kMostPoints);
  push({{}, size, *first, *by, digits, 0});
  return {};
}

Status Axis::add_factors(std::string_view text, const RangeText& range) {
  const auto as_double = [](RangeNumber number) {
    return static_cast<double>(number.value) / static_cast<double>(power_of_ten(number.digits));
  };
  if (as_double(range.by) <= 1) return fail("{} never ends: expected a factor above 1", text);
  if (range.first.value <= 0) return fail("{} never grows: expected a first number above 0", text);
  const bool is_whole = range.first.digits == 0 && range.by.digits == 0;
  const double last = as_double(range.last);
  if (as_double(range.first) > last) return fail("{} is empty: it begins above its end", text);
  std::int64_t number = range.first.value;
  double real = as_double(range.first);
  for (std::int64_t count = 0; real <= last * (is_whole ? 1 : 1 + 1e-12); ++count) {
    if (count == kMostFactors) return fail("{} has more than {} values", text, kMostFactors);
    Part part;
    part.text = is_whole ? fmt::format("{}", number) : fmt::format("{:.12g}", real);
    push(std::move(part));
    real *= as_double(range.by);
    if (__builtin_mul_overflow(number, range.by.value, &number) && is_whole) break;
  }
  return {};
}

Status Axis::add(std::string_view text, bool quoted) {
  const auto range = quoted ? std::nullopt : range_of(text);
  if (range) return range->sign == '+' ? add_steps(text, *range) : add_factors(text, *range);
  Part part;
  part.text = std::string(text);
  push(std::move(part));
  return {};
}

Result<Axis> Axis::parse(const std::string& text) {
  constexpr std::size_t kLongest = 120;
  const std::string place =
      "--vary " + (text.size() > kLongest ? text.substr(0, kLongest) + "…" : text);
  // Arguments of passes have no '=' in the key; the first one ends it.
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return fail_at(place, "expected KEY=V1,V2,…, for example train.micro_batch=1,2,4");
  Axis axis;
  axis.key_ = text.substr(0, equals);
  axis.written_ = text.substr(equals + 1);
  if (text.find('\n') != std::string::npos)
    return fail_at(place, "has a line end, expected values on one line");
  std::string_view rest = axis.written_;
  for (bool more = true; more;) {
    const bool quoted = rest.starts_with('"');
    const auto end = quoted ? rest.find('"', 1) : rest.find(',');
    if (quoted && end == std::string_view::npos)
      return fail_at(place, "a quote has no end: expected \" behind the value");
    const std::string_view value = quoted ? rest.substr(1, end - 1) : rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + (quoted ? 1 : 0));
    more = rest.starts_with(',');
    if (!more && !rest.empty())
      return fail_at(place, "'{}' follows a quoted value, expected a comma or the end", rest);
    if (more) rest.remove_prefix(1);
    if (const Status added = axis.add(value, quoted); !added)
      return fail_at(place, "{}", added.error().message);
  }
  return axis;
}

std::string Axis::value(std::int64_t at) const {
  const auto behind = std::upper_bound(
      parts_.begin(), parts_.end(), at,
      [](std::int64_t position, const Part& part) { return position < part.before; });
  const Part& part = *std::prev(behind);
  if (part.step == 0) return part.text;
  return shown(part.first + (at - part.before) * part.step, part.digits);
}

std::vector<std::string> Axis::examples() const {
  std::vector<std::string> values;
  for (const Part& part : parts_) {
    values.push_back(value(part.before));
    if (part.size > 1) values.push_back(value(part.before + part.size - 1));
  }
  return values;
}

Result<Grid> Grid::make(std::vector<Axis> axes) {
  if (axes.empty()) return fail("nothing varies: expected at least one --vary KEY=V1,V2,…");
  Grid grid;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      if (axes[j].key() == axes[i].key())
        return fail_at("--vary " + axes[i].key(), "is given twice, expected one list of values");
    if (__builtin_mul_overflow(grid.size_, axes[i].size(), &grid.size_) || grid.size_ > kMostPoints)
      return fail("the grid has more than {} points: vary less, or in larger steps", kMostPoints);
  }
  grid.axes_ = std::move(axes);
  return grid;
}

void Grid::positions(std::int64_t index, std::vector<std::int64_t>& at) const {
  at.resize(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    at[i] = index % axes_[i].size();
    index /= axes_[i].size();
  }
}

std::vector<std::string> Grid::values(std::int64_t index) const {
  std::vector<std::int64_t> at;
  positions(index, at);
  std::vector<std::string> values;
  for (std::size_t i = 0; i < axes_.size(); ++i) values.push_back(axes_[i].value(at[i]));
  return values;
}

std::int64_t Shard::begin(std::int64_t points) const {
  return points / of * (number - 1) + points % of * (number - 1) / of;
}

std::int64_t Shard::end(std::int64_t points) const { return Shard{number + 1, of}.begin(points); }

Result<Shard> parse_shard(const std::string& text) {
  const auto slash = text.find('/');
  const auto number = whole(text.substr(0, slash));
  const auto of =
      slash == std::string::npos ? std::nullopt : whole(std::string_view(text).substr(slash + 1));
  constexpr std::int64_t kMostShards = 1'000'000;
  if (!number || !of || *of < 1 || *of > kMostShards || *number < 1 || *number > *of)
    return fail_at("--shard " + text, "expected I/N with I from 1 to N, for example 3/16");
  return Shard{*number, *of};
}

}  // namespace foregather::sim
