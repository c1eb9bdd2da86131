#include "core/base/csv.h"

#include <algorithm>

namespace foregather {

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& path) : text_(text) { table_.path_ = path; }

  Result<CsvTable> read() {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
    while (at_ < text_.size()) {
      if (skip_line_end()) continue;
      if (const Status row = read_row(); !row) return tl::unexpected(row.error());
    }
    if (table_.columns_.empty())
      return fail_at(table_.path_, "is empty, expected a line with the names of columns");
    return std::move(table_);
  }

 private:
  std::string here() const {
    return fmt::format("{}:{}:{}", table_.path_, line_, at_ - line_begin_ + 1);
  }

  void next_line() {
    ++line_;
    line_begin_ = at_;
  }

  bool skip_line_end() {
    const std::size_t begin = at_;
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ < text_.size() && text_[at_] == '\n') {
      ++at_;
      next_line();
      return true;
    }
    at_ = begin;
    return false;
  }

  Status read_row() {
    const std::size_t line = line_;
    const std::size_t first = table_.cells_.size();
    while (true) {
      CsvTable::Cell cell{{}, line_, at_ - line_begin_ + 1};
      const Status read =
          at_ < text_.size() && text_[at_] == '"' ? read_quoted(cell.text) : read_plain(cell.text);
      if (!read) return read;
      table_.cells_.push_back(std::move(cell));
      if (at_ < text_.size() && text_[at_] == ',') {
        ++at_;
        continue;
      }
      if (at_ == text_.size() || skip_line_end()) break;
      return fail_at(here(), "text after a closing quote, expected a comma or the line's end");
    }
    return check_row(line, first);
  }

  Status read_plain(std::string& out) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r') {
      if (text_[at_] == '"')
        return fail_at(here(), "a quote inside a cell, expected the cell in quotes");
      ++at_;
    }
    out = text_.substr(begin, at_ - begin);
    if (at_ < text_.size() && text_[at_] == '\r' &&
        (at_ + 1 == text_.size() || text_[at_ + 1] != '\n'))
      return fail_at(here(), "a carriage return without a line feed");
    return {};
  }

  Status read_quoted(std::string& out) {
    const std::string begin = here();
    ++at_;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') {
        if (at_ == text_.size() || text_[at_] != '"') return {};
        ++at_;
      }
      out += c;
      if (c == '\n') next_line();
    }
    return fail_at(begin, "a quote that does not end");
  }

  Status check_row(std::size_t line, std::size_t first) {
    if (table_.columns_.empty()) {
      for (const CsvTable::Cell& cell : table_.cells_) {
        const std::string place = fmt::format("{}:{}:{}", table_.path_, cell.line, cell.column);
        if (cell.text.empty()) return fail_at(place, "a column without a name");
        if (table_.column(cell.text)) return fail_at(place, "column '{}' twice", cell.text);
        table_.columns_.push_back(cell.text);
      }
      return {};
    }
    const std::size_t count = table_.cells_.size() - first;
    if (count != table_.columns_.size())
      return fail_at(fmt::format("{}:{}:1", table_.path_, line), "{} cells, expected {}", count,
                     table_.columns_.size());
    return {};
  }

  std::string_view text_;
  std::size_t at_ = 0, line_ = 1, line_begin_ = 0;
  CsvTable table_;
};

std::optional<std::size_t> CsvTable::column(std::string_view name) const {
  const auto found = std::find(columns_.begin(), columns_.end(), name);
  if (found == columns_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns_.begin());
}

const std::string& CsvTable::cell(std::size_t row, std::size_t column) const {
  return cells_[(row + 1) * columns_.size() + column].text;
}

std::string CsvTable::place(std::size_t row, std::size_t column) const {
  const Cell& cell = cells_[(row + 1) * columns_.size() + column];
  return fmt::format("{}:{}:{}", path_, cell.line, cell.column);
}

Result<CsvTable> parse_csv(std::string_view text, const std::string& path) {
  return CsvReader(text, path).read();
}

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

}  // namespace foregather
