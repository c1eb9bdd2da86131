// Printed traces of lightning-thunder as rows: functions, statements, expressions and types.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "traces/thunder_type.h"

namespace foregather::traces {

using ThunderName = Id<struct ThunderNameTag>;  ///< Row of ThunderFile::names.
using ThunderTypeId = Id<struct ThunderTypeTag>;

/// One node of an expression; nodes are in preorder.
struct ThunderValue {
  enum class Kind : std::uint8_t {
    name,       ///< `t3`
    attribute,  ///< `torch.float32`; `text` has the dots
    integer,
    constant,  ///< any other literal; `text` is its source
    tuple,     ///< also a parenthesised expression
    list,
    dict,       ///< keys and values in turn
    call,       ///< `text` is what is called
    subscript,  ///< the base, then the indices
    member,     ///< `.text` of what follows: an expression that is no name
    opaque,     ///< (object of type X), <class 'X'>
  };
  Kind kind = Kind::constant;
  std::uint32_t size = 1;    ///< nodes, this one and all below
  ThunderName name;          ///< of a name, or the first part of an attribute
  std::string_view text;     ///< as in the file
  std::string_view keyword;  ///< of a keyword argument; else empty
  std::int64_t integer = 0;
};

/// A line of a function's body, or of a sub-symbol.
struct ThunderStatement {
  enum class Kind : std::uint8_t {
    assign,        ///< targets = call(…)
    move,          ///< targets = any other expression
    typed_assign,  ///< NAME: "TYPE" = expression
    unpack,        ///< a, b, = collection
    call,          ///< call(…), no result
    del,
    give_back,  ///< return
    set,        ///< x.attribute = …, x[key] = …
    other,      ///< an expression that is no call
  };
  Kind kind = Kind::other;
  std::uint8_t depth = 0;  ///< 0: of the function; else a sub-symbol of the closest less deep one
  std::uint32_t line = 0;  ///< counted from 1
  std::uint32_t end = 0;   ///< row behind its last sub-symbol
  Range targets;           ///< rows of ThunderFile::targets; also what a del deletes
  Range values;            ///< rows of ThunderFile::values: whole expressions
  ThunderTypeId type;      ///< of its own comment
};

struct ThunderParameter {
  ThunderName name;
  std::uint8_t stars = 0;  ///< *args, **kwargs
};

/// One trace.
struct ThunderFunction {
  std::string_view name;        ///< empty: "# No signature available"
  std::string_view provenance;  ///< what is after "# Constructed by "
  std::uint32_t line = 0;
  std::vector<ThunderParameter> parameters;
  Range statements;  ///< sub-symbols included
  bool has_return = false;
};

/// A line that the grammar does not know.
struct ThunderProblem {
  std::uint32_t line = 0, column = 0;  ///< counted from 1
  std::string_view what;               ///< static text
};

/// See read_thunder(). Views lead into the text that was read, which must outlive this.
struct ThunderFile {
  static constexpr ThunderName kUnderscore{};  ///< a target that is "_"

  std::vector<ThunderFunction> functions;
  std::vector<ThunderStatement> statements;
  std::vector<ThunderValue> values;
  std::vector<ThunderName> targets;
  std::vector<std::string_view> names;
  std::vector<ThunderTypeId> name_types;  ///< by name: the first comment with a tensor type
  std::vector<bool> is_described;         ///< by name: is there any comment that types it?
  std::vector<ThunderTensorType> types;
  std::vector<ThunderProblem> problems;

  // Counts of lines, as the README of the test data defines them.
  std::int64_t statement_lines = 0;   ///< neither blank nor comment, after the first def
  std::int64_t sub_symbol_lines = 0;  ///< comments indented by more than 2 that type no name
  std::int64_t unparsed_lines = 0;

  std::string_view text(ThunderName name) const {
    return name ? names[name.row()] : std::string_view("_");
  }
  std::span<const ThunderName> targets_of(const ThunderStatement& statement) const {
    return std::span(targets).subspan(statement.targets.first, statement.targets.count);
  }
  std::span<const ThunderValue> values_of(const ThunderStatement& statement) const {
    return std::span(values).subspan(statement.values.first, statement.values.count);
  }
  /// The call of an assign or a call statement, else null.
  const ThunderValue* call_of(const ThunderStatement& statement) const;
  /// The type of its own comment for a statement of one target, else the first comment's.
  const ThunderTensorType* type_of(const ThunderStatement& statement, ThunderName target) const;
};

/// The children of a node that is in an array of nodes in preorder.
template <class Visit>
void each_child(const ThunderValue& parent, Visit visit) {
  for (std::uint32_t i = 1; i < parent.size;) {
    const ThunderValue& child = *(&parent + i);
    visit(child);
    i += child.size;
  }
}

/// The part behind the last dot.
std::string_view last_component(std::string_view dotted);

/// Is this text, or the beginning of one, a printed trace?
bool is_thunder_trace(std::string_view head);

/// Reads one file of printed traces: one or several, in any printing style since 2023, with the
/// artefacts of lists, docstrings, quoted bodies, elisions and cuts. A line that the grammar does
/// not know is counted and listed in `problems`, at most kMostProblems of them.
///
/// One pass over the text; views point into it, nothing is allocated for a token. Errors, with
/// `path`:LINE:COL: no function at all, a text of 512 MiB or more.
Result<ThunderFile> read_thunder(std::string_view text, const std::string& path);

inline constexpr std::size_t kMostThunderProblems = 100;

}  // namespace foregather::traces
