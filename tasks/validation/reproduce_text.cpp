#include <fmt/format.h>

#include "core/base/json_writer.h"
#include "core/base/text.h"
#include "tasks/validation/reproduce.h"

namespace foregather::tasks {
namespace {

constexpr int kSchema = 1;

std::string with_unit(double value, const std::string& unit) {
  return fmt::format("{}{}{}", value, unit.empty() ? "" : " ", unit);
}

std::string difference_text(const Reproduced& row) {
  const auto difference = row.difference();
  if (!difference) return "–";
  return fmt::format("{}{}", *difference > 0 ? "+" : "",
                     with_unit(*difference, row.unit == "%" ? "points" : row.unit));
}

}  // namespace

std::string reproduced_text(const std::vector<Reproduced>& rows) {
  std::string text, source;
  TextTable table;
  const auto flush = [&] {
    if (!source.empty()) text += fmt::format("{}\n{}", source, table.text(2));
    table = TextTable();
  };
  for (const Reproduced& row : rows) {
    if (row.source != source) {
      flush();
      if (!source.empty()) text += "\n";
      source = row.source;
      table.row({"", "published", "predicted", "difference", ""});
    }
    table.row({row.what, row.published.empty() ? "–" : row.published,
               with_unit(row.predicted, row.unit), difference_text(row),
               row.holds() ? "" : "OUT OF RANGE"});
  }
  flush();
  return text;
}

std::string reproduced_markdown(const std::vector<Reproduced>& rows) {
  std::string text =
      "# Published effects, reproduced\n\nWritten by `./dev reproduce`; do not edit. Every row is "
      "made from the samples of this repository by the\ncommand that stands with it; a change is "
      "against the same command without the pass, or with the other setting.\nThe orders of "
      "Thunder's sorting passes are exact, and tests (`ctest -R orders`).\n";
  std::string source;
  for (const Reproduced& row : rows) {
    if (row.source != source) {
      source = row.source;
      text += fmt::format(
          "\n## {}\n\n| figure | published | predicted | difference | must lie in | command | "
          "assumed |\n|---|---:|---:|---:|---|---|---|\n",
          source);
    }
    const std::string range =
        row.range.first == row.range.second
            ? with_unit(row.range.first, row.unit)
            : fmt::format("{} … {}", row.range.first, with_unit(row.range.second, row.unit));
    text += fmt::format("| {} | {} | {}{} | {} | {} | `{}` | {} |\n", row.what,
                        row.published.empty() ? "–" : row.published,
                        with_unit(row.predicted, row.unit), row.holds() ? "" : " (out of range)",
                        difference_text(row), range, row.command, row.assumed);
  }
  return text;
}

std::string to_json(const std::vector<Reproduced>& rows) {
  JsonWriter json;
  json.begin_object().field("schema", kSchema);
  json.key("rows").begin_array();
  for (const Reproduced& row : rows) {
    json.begin_object();
    json.field("source", std::string_view(row.source));
    json.field("what", std::string_view(row.what));
    json.field("unit", std::string_view(row.unit));
    json.key("published");
    if (row.published_value)
      json.value(*row.published_value);
    else
      json.null();
    json.field("published_text", std::string_view(row.published));
    json.field("predicted", row.predicted);
    json.key("difference");
    if (const auto difference = row.difference())
      json.value(*difference);
    else
      json.null();
    json.key("range").begin_array().value(row.range.first).value(row.range.second).end_array();
    json.field("holds", row.holds());
    json.field("command", std::string_view(row.command));
    json.field("assumed", std::string_view(row.assumed));
    json.end_object();
  }
  json.end_array().end_object();
  return json.text() + "\n";
}

}  // namespace foregather::tasks
