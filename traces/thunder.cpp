#include "traces/thunder.h"

#include <algorithm>

#include "traces/thunder_parser.h"

namespace foregather::traces {
namespace {

constexpr std::size_t kMostText = std::size_t{512} << 20;

std::string_view without_spaces(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::size_t indent_of(std::string_view line) {
  const auto first = line.find_first_not_of(" \t");
  return first == std::string_view::npos ? line.size() : first;
}

/// One line, or several that backslashes join.
struct Line {
  std::string_view text;  ///< without its line end
  std::uint32_t number = 1;
};

class Lines {
 public:
  /// With `prefix` at the start of each line left out where it is there.
  Lines(std::string_view text, std::string_view prefix) : rest_(text), prefix_(prefix) {
    if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);
  }

  std::optional<Line> next() {
    if (rest_.empty()) return std::nullopt;
    Line line;
    line.number = ++number_;
    std::size_t end = end_of_line(0);
    // A comment goes on to its line's end, whatever that is. A joined line has no comment.
    const std::size_t first = rest_.find_first_not_of(" \t");
    const bool is_comment = first != std::string_view::npos && rest_[first] == '#';
    while (!is_comment && joins(rest_.substr(0, end)) && end < rest_.size()) {
      end = end_of_line(end + 1);
      ++number_;
    }
    line.text = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (line.text.ends_with('\r')) line.text.remove_suffix(1);
    if (line.text.starts_with(prefix_)) line.text.remove_prefix(prefix_.size());
    return line;
  }

 private:
  std::size_t end_of_line(std::size_t from) const {
    return std::min(rest_.find('\n', from), rest_.size());
  }
  static bool joins(std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line.ends_with('\\');
  }

  std::string_view rest_, prefix_;
  std::uint32_t number_ = 0;
};

bool is_definition(std::string_view line) {
  return line.starts_with("def ") && line.find('(') != std::string_view::npos;
}

// A function without header and decorators: any Python, unless it has what only traces have.
bool has_thunder_words(std::string_view text) {
  for (const std::string_view word :
       {"prims.", "ltorch.", "_impl(", "nvFusion", "TorchCompile", "saved_for_backward",
        ": \"cuda:", ": \"cpu ", " = torch.", " = Tensor.", "thunder."})
    if (text.find(word) != std::string_view::npos) return true;
  return false;
}

// A body in a comment: "# def computation(…):".
std::string_view comment_prefix(std::string_view text) {
  Lines lines(text, "");
  std::string_view prefix;
  while (const auto line = lines.next()) {
    const std::string_view content = without_spaces(line->text);
    if (is_definition(content)) return "";
    if (!prefix.empty()) continue;
    if (content.starts_with("# def ") && is_definition(content.substr(2)))
      prefix = line->text.substr(0, line->text.find('#') + 2);
  }
  return prefix;
}

/// Sorts lines and keeps the functions' row ranges.
class FileReader {
 public:
  explicit FileReader(ThunderFile& file) : file_(file), parser_(file) {}

  void line(const Line& line) {
    const std::string_view content = without_spaces(line.text);
    if (content.empty()) return;
    if (content.front() == '#')
      comment(line, content);
    else
      code(line, content);
  }

  void finish() {
    close_function();
    link_sub_symbols();
  }

 private:
  void code(const Line& line, std::string_view content) {
    if (in_file_) ++file_.statement_lines;
    // A printed list of traces.
    if (content.starts_with("[#")) return comment({content, line.number}, content.substr(1));
    if (content.starts_with("[import ") || content.starts_with("[from ") ||
        content.starts_with("[@") || content.starts_with("[def "))
      content.remove_prefix(1);
    if (is_definition(content)) return define(line, content);
    const bool is_import = content.starts_with("import ") || content.starts_with("from ");
    if (content.front() == '@' || is_import) return close_function();
    if (!in_function_) {
      // Prose before the first trace is none of ours.
      if (in_file_) problem(line, 0, "outside of a function");
      return;
    }
    if (content == "..." || content == "]" || content == ",") {
      ++file_.unparsed_lines;
      return report(line, 0,
                    content == "..." ? "left out where it was printed" : "a list's bracket");
    }
    if (const auto failure = parser_.statement(content)) {
      ++file_.unparsed_lines;
      return report(line, failure->offset, failure->what);
    }
    finish_statement(line, 0);
    // A list's next trace begins behind the return.
    constexpr std::string_view kNext = ", # Constructed by ";
    if (file_.statements.back().kind != ThunderStatement::Kind::give_back) return;
    if (const auto next = content.rfind(kNext); next != std::string_view::npos)
      provenance_ = content.substr(next + kNext.size());
  }

  void comment(const Line& line, std::string_view content) {
    const std::size_t indent = indent_of(line.text);
    std::string_view body = without_spaces(content.substr(1));
    constexpr std::string_view kConstructed = "Constructed by ";
    if (body.starts_with(kConstructed)) {
      close_function();
      provenance_ = body.substr(kConstructed.size());
      return;
    }
    if (body == "No signature available") return no_signature(line);
    if (!in_file_) return;
    const auto typed = parser_.typed_name(body);
    const bool is_plain = typed && without_spaces(body).back() == '"';
    if (indent > 2 && !is_plain) ++file_.sub_symbol_lines;
    if (typed || !in_function_ || indent <= indent_) return;
    // Free comments do not parse, and need not.
    while (body.starts_with('#')) body = without_spaces(body.substr(1));
    if (body.empty() || parser_.statement(body)) return;
    const std::size_t depth = std::max<std::size_t>((indent - indent_) / 2, 1);
    finish_statement(line, static_cast<std::uint8_t>(std::min<std::size_t>(depth, 64)));
  }

  void define(const Line& line, std::string_view content) {
    close_function();
    in_file_ = in_function_ = true;
    indent_ = indent_of(line.text) + 2;
    const auto failure = parser_.definition(content);
    if (failure) problem(line, failure->offset, failure->what);
    if (failure && (file_.functions.empty() || file_.functions.back().line != 0)) {
      in_function_ = false;
      return;
    }
    open_function(line);
  }

  void no_signature(const Line& line) {
    close_function();
    in_file_ = in_function_ = true;
    indent_ = indent_of(line.text) + 2;
    file_.functions.emplace_back();
    open_function(line);
  }

  void open_function(const Line& line) {
    ThunderFunction& function = file_.functions.back();
    function.line = line.number;
    function.provenance = provenance_;
    function.statements.first = static_cast<std::uint32_t>(file_.statements.size());
    provenance_ = {};
  }

  void close_function() {
    if (!in_function_) return;
    Range& rows = file_.functions.back().statements;
    rows.count = static_cast<std::uint32_t>(file_.statements.size()) - rows.first;
    in_function_ = false;
  }

  void finish_statement(const Line& line, std::uint8_t depth) {
    ThunderStatement& statement = file_.statements.back();
    statement.line = line.number;
    statement.depth = depth;
    if (depth == 0 && statement.kind == ThunderStatement::Kind::give_back)
      file_.functions.back().has_return = true;
  }

  void problem(const Line& line, std::size_t offset, std::string_view what) {
    ++file_.unparsed_lines;
    report(line, offset, what);
  }

  void report(const Line& line, std::size_t offset, std::string_view what) {
    if (file_.problems.size() == kMostThunderProblems) return;
    const std::string_view content = without_spaces(line.text);
    // Of a joined line, the part that the offset is in.
    const std::string_view before = content.substr(0, offset);
    const auto breaks = std::count(before.begin(), before.end(), '\n');
    const std::size_t column =
        breaks == 0 ? indent_of(line.text) + offset : offset - before.rfind('\n') - 1;
    file_.problems.push_back({line.number + static_cast<std::uint32_t>(breaks),
                              static_cast<std::uint32_t>(column + 1), what});
  }

  // Depths may skip a level; a sub-symbol without a statement before it belongs to none.
  void link_sub_symbols() {
    std::vector<std::uint32_t> open;
    for (const ThunderFunction& function : file_.functions) {
      open.clear();
      for (std::uint32_t row = function.statements.first; row < function.statements.end(); ++row) {
        while (!open.empty() &&
               file_.statements[open.back()].depth >= file_.statements[row].depth) {
          file_.statements[open.back()].end = row;
          open.pop_back();
        }
        open.push_back(row);
      }
      for (const std::uint32_t row : open) file_.statements[row].end = function.statements.end();
    }
  }

  ThunderFile& file_;
  ThunderParser parser_;
  std::string_view provenance_;
  std::size_t indent_ = 2;  ///< of the current function's statements
  bool in_file_ = false;    ///< a function has begun
  bool in_function_ = false;
};

}  // namespace

const ThunderValue* ThunderFile::call_of(const ThunderStatement& statement) const {
  const bool may =
      statement.values.count > 0 && (statement.kind == ThunderStatement::Kind::assign ||
                                     statement.kind == ThunderStatement::Kind::call);
  return may ? &values[statement.values.first] : nullptr;
}

const ThunderTensorType* ThunderFile::type_of(const ThunderStatement& statement,
                                              ThunderName target) const {
  ThunderTypeId type = statement.targets.count == 1 ? statement.type : ThunderTypeId();
  if (!type && target) type = name_types[target.row()];
  return type ? &types[type.row()] : nullptr;
}

std::string_view last_component(std::string_view dotted) {
  const auto dot = dotted.rfind('.');
  return dot == std::string_view::npos ? dotted : dotted.substr(dot + 1);
}

bool is_thunder_trace(std::string_view head) {
  const bool has_comment_body = !comment_prefix(head).empty();
  Lines lines(head, "");
  bool says_thunder = has_comment_body;
  while (const auto line = lines.next()) {
    std::string_view content = without_spaces(line->text);
    if (content.empty()) continue;
    if (content.starts_with('[')) content.remove_prefix(1);
    if (content.starts_with("# Constructed by ") || content == "# No signature available")
      return true;
    if (content.starts_with("@torch.no_grad()") || content.starts_with("@no_autocast") ||
        content.starts_with("@torch.autocast("))
      says_thunder = true;
    if (is_definition(content)) return says_thunder || has_thunder_words(head);
  }
  return says_thunder;
}

Result<ThunderFile> read_thunder(std::string_view text, const std::string& path) {
  if (text.size() >= kMostText)
    return fail_at(path, "is {} bytes long, expected a trace of less than {}", text.size(),
                   kMostText);
  ThunderFile file;
  const std::string_view prefix = comment_prefix(text);
  FileReader reader(file);
  Lines lines(text, prefix);
  while (const auto line = lines.next()) reader.line(*line);
  reader.finish();
  if (file.functions.empty())
    return fail_at(path + ":1:1",
                   "no function, expected a printed Thunder trace with a line 'def NAME(…):'");
  return file;
}

}  // namespace foregather::traces
