// The rows of a dump, read into a graph. Internal to core/ir; see dump.h for the format.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/suggest.h"
#include "core/ir/dump_lexer.h"
#include "core/ir/graph.h"
#include "core/ir/names.h"
#include "core/ir/references.h"

namespace foregather {

/// Reads one dump line by line. A row is dispatched by its first word, its number must be the next
/// of its table, its fields come in any order. References are checked at the end, when all rows are
/// known; the place of a bad one is found by reading the row ids once more.
class DumpReader {
 public:
  DumpReader(std::string_view text, const std::string& path)
      : text_(text), path_(path), in_(text, path) {}

  Result<Graph> run();

 private:
  // dump_read.cpp
  void header();
  void job();
  void row();
  std::size_t next_row(char letter) const;
  void keyword();
  Status references() const;
  std::string place_of(const BadRow& bad) const;

  // dump_read_tables.cpp
  void string();
  void group();
  void communicator();
  void unit();
  void cost();
  void storage();
  void tensor();
  void op();
  void rank_class();
  Range ranks();
  AccessedTensor access(Access mode);
  Range op_list();

  // dump_read_programs.cpp
  void program();
  void stream();
  void thread();
  void section();
  void action(std::string_view word);
  Range rows(char letter, const char* what);

  // Pieces of rows.
  StringId name_field();
  /// Index in `keys` of the KEY= that comes next; fails for an unknown key, suggesting the nearest,
  /// and for one that `seen` holds already.
  template <std::size_t N>
  std::size_t field(const std::array<std::string_view, N>& keys, std::uint32_t& seen) {
    return field(std::span<const std::string_view>(keys), seen);
  }
  std::size_t field(std::span<const std::string_view> keys, std::uint32_t& seen);
  template <class Enum>
  Enum choice(const char* what, Enum last);
  /// The same for a word of its own.
  template <class Enum>
  Enum word_choice(const char* what, Enum last) {
    in_.more();
    return choice(what, last);
  }
  std::uint32_t word_id(char letter, const char* what) {
    in_.more();
    return in_.id(letter, what);
  }
  std::int64_t word_number(std::int64_t most) {
    in_.more();
    return in_.number(0, most);
  }
  /// Reads the id that comes next into `field`, which must be absent so far.
  template <class Tag>
  void only_id(Id<Tag>& field, char letter, const char* what);

  std::string_view text_;
  const std::string& path_;
  DumpLexer in_;
  Graph graph_;
  std::vector<Action>* actions_ = nullptr;  ///< of the open section
  std::size_t action_rows_ = 0;
  bool ended_ = false;
};

template <class Enum>
Enum DumpReader::choice(const char* what, Enum last) {
  const std::string_view word = in_.symbol();
  if (const auto found = parse<Enum>(word); found && *found <= last) return *found;
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(last); ++i)
    names.push_back(name(static_cast<Enum>(i)));
  in_.fail("'{}' is not a {}{}", printable(word), what, did_you_mean(word, names));
  return last;
}

template <class Tag>
void DumpReader::only_id(Id<Tag>& field, char letter, const char* what) {
  const bool is_second = static_cast<bool>(field);
  field = Id<Tag>(word_id(letter, what));
  if (is_second) in_.fail("a second {}, expected one", what);
}

}  // namespace foregather
