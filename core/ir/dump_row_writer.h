// Words of dump rows. Internal to core/ir; see dump.h for the format.
#pragma once

#include <charconv>
#include <span>
#include <string>
#include <string_view>

#include "core/ir/graph.h"
#include "core/ir/names.h"

namespace foregather {

/// Appends words to one text. line() begins a row, every other method appends a word with a space
/// in front; fields that have their usual value are left out. The graph's references must hold.
class RowWriter {
 public:
  explicit RowWriter(const Graph& graph) : graph_(graph) {}

  void line(std::string_view indent, std::string_view first_word) {
    end_line();
    out_ += indent;
    out_ += first_word;
  }
  void line(std::string_view indent, char letter, std::size_t row) {
    end_line();
    out_ += indent;
    plain_id(letter, row);
  }
  void word(std::string_view text) {
    out_ += ' ';
    out_ += text;
  }
  void number(std::int64_t value) {
    out_ += ' ';
    plain(value);
  }
  template <class Tag>
  void id(char letter, Id<Tag> id) {
    if (id) row(letter, id.row());
  }
  void row(char letter, std::uint32_t row) {
    out_ += ' ';
    plain_id(letter, row);
  }
  void text(StringId id) {
    if (!id) return;
    out_ += ' ';
    quoted(graph_.text(id));
  }
  void field(std::string_view key, std::int64_t value, std::int64_t usual = 0) {
    if (value == usual) return;
    begin_field(key);
    plain(value);
  }
  template <class Enum>
  void choice(std::string_view key, Enum value, Enum usual) {
    if (value == usual) return;
    begin_field(key);
    out_ += name(value);
  }
  void offset(Bytes bytes) {
    if (bytes == 0) return;
    out_ += " +";
    plain(bytes);
  }
  void rows(std::string_view key, char letter, Range range) {
    if (range == Range{}) return;
    begin_field(key);
    plain_id(letter, range.first);
    out_ += '+';
    plain(range.count);
  }
  void ranks(Range range);
  void op_list(std::string_view key, std::span<const OpId> ops);
  void access(const AccessedTensor& part);
  void shape(const Tensor& tensor);

  std::string take() {
    end_line();
    return std::move(out_);
  }

 private:
  void end_line() {
    if (!out_.empty()) out_ += '\n';
  }
  void begin_field(std::string_view key) {
    out_ += ' ';
    out_ += key;
    out_ += '=';
  }
  void plain(std::int64_t value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    out_.append(digits, end);
  }
  void plain_id(char letter, std::size_t row) {
    out_ += letter;
    plain(static_cast<std::int64_t>(row));
  }
  void quoted(std::string_view text);

  const Graph& graph_;
  std::string out_;
};

}  // namespace foregather
