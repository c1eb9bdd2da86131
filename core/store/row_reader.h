// Checked access to the columns of one query row.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/store/sqlite.h"

namespace foregather::store {

/// Reads the columns of a Statement or of Cells from left to right and remembers the first one that
/// does not fit.
template <class Columns>
class BasicRowReader {
 public:
  explicit BasicRowReader(const Columns& columns) : columns_(columns) {}

  std::int64_t integer() { return columns_.integer(column_++); }
  std::int64_t within(std::int64_t least, std::int64_t most) {
    return within(integer(), least, most);
  }
  /// A difference of two times that recordings may have.
  Ns time() { return within(-kFarthest, kFarthest); }
  /// Of what began at `begin`.
  Ns time_from(Ns begin) { return within(begin, kFarthest); }
  bool flag() { return within(integer(), 0, 1) == 1; }
  std::string text() { return std::string(columns_.text(column_++)); }

  template <class Number>
  Number number() {
    return static_cast<Number>(
        within(integer(), std::numeric_limits<Number>::min(), std::numeric_limits<Number>::max()));
  }
  template <class Enum>
  Enum choice(Enum last) {
    return static_cast<Enum>(within(integer(), 0, static_cast<std::int64_t>(last)));
  }
  /// A reference to one of `rows` rows.
  template <class Row>
  Row row(std::size_t rows) {
    return row_at<Row>(integer(), rows);
  }
  /// The same, or NULL.
  template <class Row>
  Row maybe_row(std::size_t rows) {
    const auto id = maybe_integer();
    return id ? row_at<Row>(*id, rows) : Row();
  }
  template <class Enum>
  std::optional<Enum> maybe_choice(Enum last) {
    if (!columns_.maybe_integer(column_)) return ++column_, std::nullopt;
    return choice(last);
  }
  std::optional<std::int64_t> maybe_integer() { return columns_.maybe_integer(column_++); }
  std::optional<double> maybe_real() { return columns_.maybe_real(column_++); }
  /// The row's own id, which must be `expected`.
  void id(std::size_t expected) { within(integer(), number_of(expected), number_of(expected)); }

  /// Everything so far fitted.
  bool ok() const { return ok_; }

 private:
  static constexpr Ns kFarthest = 2 * kLatestTime - 1;  // two of them have a difference
  template <class Row>
  Row row_at(std::int64_t id, std::size_t rows) {
    ok_ = ok_ && id >= 0 && id < static_cast<std::int64_t>(rows);
    return ok_ ? Row(static_cast<std::size_t>(id)) : Row();
  }
  static std::int64_t number_of(std::size_t value) { return static_cast<std::int64_t>(value); }
  std::int64_t within(std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value >= least && value <= most) return value;
    ok_ = false;
    return least;
  }

  const Columns& columns_;
  int column_ = 0;
  bool ok_ = true;
};

using RowReader = BasicRowReader<Statement>;
using CellReader = BasicRowReader<Cells>;

}  // namespace foregather::store
