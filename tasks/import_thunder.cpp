#include <algorithm>
#include <memory>

#include "core/base/text.h"
#include "tasks/import_parts.h"
#include "tasks/importers.h"
#include "tasks/thunder_source.h"
#include "traces/read_all.h"
#include "traces/thunder_facts.h"

namespace foregather::tasks {
namespace {

constexpr Bytes kLongestTrace = 512 * MiB;

void count_dropped(const traces::ThunderFile& file, ImportedFile& imported) {
  for (const traces::ThunderProblem& problem : file.problems) {
    const auto same = std::find_if(imported.dropped.begin(), imported.dropped.end(),
                                   [&](const auto& row) { return row.first == problem.what; });
    if (same == imported.dropped.end())
      imported.dropped.emplace_back(problem.what, 1);
    else
      ++same->second;
  }
  const std::int64_t unlisted =
      file.unparsed_lines - static_cast<std::int64_t>(file.problems.size());
  if (unlisted > 0) imported.dropped.emplace_back("further lines", unlisted);
}

void write_facts(JsonWriter& json, const traces::ThunderFacts& facts) {
  json.field("format", "thunder");
  json.key("fn");
  if (facts.function.empty())
    json.null();
  else
    json.value(facts.function);
  json.field("n_args", facts.arguments)
      .field("n_stmts", facts.statements)
      .field("n_sub", facts.sub_symbols)
      .field("n_del", facts.deletes)
      .field("fusions", facts.fusions);
  write_counts(json, "collectives", facts.collectives);
  json.field("arg_bytes", facts.argument_bytes)
      .field("peak_bytes", facts.peak_bytes)
      .field("end_bytes", facts.end_bytes)
      .field("unknown_types", facts.unknown_types)
      .field("has_return", facts.has_return)
      .field("unparsed", facts.unparsed);
}

void describe(ImportedFile& imported, const traces::ThunderFacts& facts) {
  imported.what =
      fmt::format("Thunder trace of {}", facts.function.empty() ? "no function" : facts.function);
  auto& rows = imported.rows;
  rows.push_back({"arguments", format_count(facts.arguments), format_bytes(facts.argument_bytes)});
  rows.push_back({"statements", format_count(facts.statements),
                  fmt::format("{} sub-symbols, {} deletes", facts.sub_symbols, facts.deletes)});
  rows.push_back({"fusions", format_count(facts.fusions), ""});
  for (const auto& [name, count] : facts.collectives)
    rows.push_back({std::string(name), format_count(count), ""});
  rows.push_back({"peak", format_bytes(facts.peak_bytes), "by Thunder's estimator"});
  rows.push_back({"unknown types", format_count(facts.unknown_types), ""});
  rows.push_back({"lines not read", format_count(facts.unparsed), ""});
}

Result<ImportedFile> import_thunder(const ImportSource& source) {
  const std::string& path = source.member.name;
  auto content = traces::read_all(source.text, path, kLongestTrace);
  if (!content) return tl::unexpected(content.error());
  // What the facts have views into.
  const auto text = std::make_shared<const std::string>(std::move(*content));
  const auto file = traces::read_thunder(*text, path);
  if (!file) return tl::unexpected(file.error());
  const traces::ThunderFacts facts = traces::thunder_facts(*file);
  ImportedFile imported;
  imported.warnings = thunder_warnings(*file, path);
  imported.write_json = [text, facts](JsonWriter& json) { write_facts(json, facts); };
  count_dropped(*file, imported);
  imported.read = rows_of(file->statements.size(), imported.dropped);
  describe(imported, facts);
  return imported;
}

}  // namespace

const Importer kThunderImporter{
    "a printed Thunder trace",
    [](std::string_view head) { return traces::is_thunder_trace(thunder_head(head)); },
    import_thunder, false};

}  // namespace foregather::tasks
