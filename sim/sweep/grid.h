// The candidates of a sweep: every combination of the values of its axes, by number. Nothing is
// ever listed: a point is worked out from its number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace foregather::sim {

/// Values of one key: texts and ranges in the order in which they were written.
class Axis {
 public:
  /// Reads "KEY=V1,V2,…". A value is a text; a range `a..b` (whole numbers, one apart), `a..b+s`
  /// or `a..b*f` (numbers, s apart, or each f times the one before; b only if it is met); nothing
  /// (an empty text); or a text in double quotes, which may hold commas and is never a range. The
  /// place of errors is "--vary TEXT".
  static Result<Axis> parse(const std::string& text);

  const std::string& key() const { return key_; }
  /// What was written behind the "=".
  const std::string& written() const { return written_; }
  std::int64_t size() const { return size_; }
  /// 0 ≤ `at` < size().
  std::string value(std::int64_t at) const;
  /// Texts, and the first and last value of each range: if these can be values, all can.
  std::vector<std::string> examples() const;

 private:
  struct Part {
    std::string text;        ///< of a single value
    std::int64_t size = 1;   ///< of a range: its values
    std::int64_t first = 0;  ///< in units of 10^-digits
    std::int64_t step = 0;
    int digits = 0;
    std::int64_t before = 0;  ///< values of the parts in front
  };
  Status add(std::string_view text, bool quoted);
  Status add_steps(std::string_view text, const struct RangeText& range);
  Status add_factors(std::string_view text, const struct RangeText& range);
  void push(Part part);

  std::string key_, written_;
  std::vector<Part> parts_;
  std::int64_t size_ = 0;
};

/// Of a grid, and of the whole job: no more can be counted in years.
inline constexpr std::int64_t kMostPoints = 1'000'000'000'000'000;

/// All combinations; the last axis changes fastest.
class Grid {
 public:
  /// Errors: no axis, a key twice, more than kMostPoints points.
  static Result<Grid> make(std::vector<Axis> axes);

  const std::vector<Axis>& axes() const { return axes_; }
  std::int64_t size() const { return size_; }
  /// The value of each axis at point `index`, in their order.
  std::vector<std::string> values(std::int64_t index) const;
  /// Which value each axis has there.
  void positions(std::int64_t index, std::vector<std::int64_t>& at) const;

 private:
  std::vector<Axis> axes_;
  std::int64_t size_ = 1;
};

/// One of N parts of a grid: consecutive points.
struct Shard {
  std::int64_t number = 1;  ///< from 1 to `of`
  std::int64_t of = 1;

  /// The first point and the one past the last.
  std::int64_t begin(std::int64_t points) const;
  std::int64_t end(std::int64_t points) const;
};

/// Reads "I/N" with 1 ≤ I ≤ N. The place of errors is "--shard TEXT".
Result<Shard> parse_shard(const std::string& text);

}  // namespace foregather::sim
