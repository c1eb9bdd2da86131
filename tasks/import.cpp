#include "tasks/import.h"

#include <algorithm>

#include "core/base/file.h"
#include "core/base/json_writer.h"
#include "tasks/sniff.h"
#include "tasks/thunder_source.h"

namespace foregather::tasks {
namespace {

constexpr Bytes kLongestTrace = 512 * MiB;
constexpr int kSchema = 1;

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

Result<ImportedFile> import_file(const std::string& path) {
  auto text = read_file(path, kLongestTrace);
  if (!text) return tl::unexpected(text.error());
  if (!traces::is_thunder_trace(thunder_head(*text)))
    return fail_at(path, "is in no format that import reads, expected a printed Thunder trace");
  ImportedFile imported;
  imported.path = path;
  imported.text = std::make_unique<const std::string>(std::move(*text));
  const auto file = traces::read_thunder(*imported.text, path);
  if (!file) return tl::unexpected(file.error());
  imported.facts = traces::thunder_facts(*file);
  imported.warnings = thunder_warnings(*file, path);
  count_dropped(*file, imported);
  return imported;
}

void write_facts(JsonWriter& json, const ImportedFile& file) {
  const traces::ThunderFacts& facts = file.facts;
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
  json.key("collectives").begin_object();
  for (const auto& [name, count] : facts.collectives) json.field(name, count);
  json.end_object();
  json.field("arg_bytes", facts.argument_bytes)
      .field("peak_bytes", facts.peak_bytes)
      .field("end_bytes", facts.end_bytes)
      .field("unknown_types", facts.unknown_types)
      .field("has_return", facts.has_return)
      .field("unparsed", facts.unparsed);
  json.key("dropped").begin_object();
  for (const auto& [reason, count] : file.dropped) json.field(reason, count);
  json.end_object();
  json.key("warnings").begin_array();
  for (const std::string& warning : file.warnings) json.value(warning);
  json.end_array();
}

}  // namespace

Result<std::vector<ImportedFile>> import_files(const std::vector<std::string>& paths) {
  std::vector<ImportedFile> files;
  for (const std::string& path : paths) {
    auto file = import_file(path);
    if (!file) return tl::unexpected(file.error());
    files.push_back(std::move(*file));
  }
  return files;
}

std::string to_json(const std::vector<ImportedFile>& files) {
  JsonWriter json;
  json.begin_object().field("schema", kSchema);
  if (files.size() == 1) {
    json.field("source", files.front().path);
    write_facts(json, files.front());
  } else {
    json.key("files").begin_object();
    for (const ImportedFile& file : files) {
      json.key(file.path).begin_object();
      write_facts(json, file);
      json.end_object();
    }
    json.end_object();
  }
  json.end_object();
  return json.text() + "\n";
}

}  // namespace foregather::tasks
