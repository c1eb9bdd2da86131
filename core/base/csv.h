// Comma-separated values, after RFC 4180.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace foregather {

/// A table with a header line; every row has a cell for each column.
class CsvTable {
 public:
  std::size_t rows() const { return columns_.empty() ? 0 : cells_.size() / columns_.size() - 1; }
  const std::vector<std::string>& columns() const { return columns_; }
  std::optional<std::size_t> column(std::string_view name) const;
  /// `row` < rows(), `column` < columns().size().
  const std::string& cell(std::size_t row, std::size_t column) const;
  const std::string& path() const { return path_; }
  /// "FILE:LINE:COL" of a cell, counted from 1.
  std::string place(std::size_t row, std::size_t column) const;

 private:
  friend class CsvReader;
  struct Cell {
    std::string text;
    std::size_t line = 0, column = 0;
  };
  std::string path_;
  std::vector<std::string> columns_;
  std::vector<Cell> cells_;  ///< the header, then the rows
};

/// `path` is for places. A byte order mark, CRLF and empty lines are accepted. Errors, at their
/// place: no header, a repeated or empty column name, a row with more or fewer cells than the
/// header, a quote that does not end or stands inside an unquoted cell, text after a closing quote.
Result<CsvTable> parse_csv(std::string_view text, const std::string& path);

/// `text` as a cell: in quotes where it holds a comma, a quote or a line end.
std::string csv_cell(std::string_view text);

}  // namespace foregather
