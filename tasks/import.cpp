#include "tasks/import.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "core/rebuild/window.h"
#include "profiler/raw_file.h"
#include "tasks/import_parts.h"
#include "tasks/importers.h"
#include "tasks/parallel.h"
#include "traces/perfetto.h"

namespace foregather::tasks {
namespace {

constexpr int kImportSchema = 1;

/// Formats that only their own tool reads, by the ending of the name.
struct Foreign {
  std::string_view ending, advice;
};
constexpr std::string_view kExportNsys =
    "is a report that only Nsight Systems reads, expected its export: nsys export --type sqlite -o "
    "OUT.sqlite REPORT";
constexpr std::array kForeign{Foreign{".nsys-rep", kExportNsys}, Foreign{".qdrep", kExportNsys},
                              Foreign{".qdstrm", kExportNsys}};

std::string known_formats() {
  std::vector<std::string_view> names;
  for (const Importer* importer : kImporters) names.push_back(importer->name);
  const std::string_view last = names.back();
  names.pop_back();
  return fmt::format("{} or {}", fmt::join(names, ", "), last);
}

struct ImportedPath {
  std::vector<ImportedFile> files;
  std::vector<std::string> unknown;  // members in no known format
};

Status import_member(const ImportSource& source, ImportedPath& imported) {
  const auto head = traces::take_head(source.text, traces::kFormatHead);
  if (!head) return tl::unexpected(head.error());
  const auto* const importer =
      std::find_if(kImporters.begin(), kImporters.end(),
                   [&](const Importer* known) { return known->is_format(*head); });
  const bool is_in_archive = source.member.name.find('!') != std::string::npos;
  if (importer == kImporters.end()) {
    if (is_in_archive) {
      if (!source.member.name.ends_with(traces::kPerfettoManifest))
        imported.unknown.push_back(source.member.name);
      return {};
    }
    for (const Foreign& foreign : kForeign)
      if (source.member.name.ends_with(foreign.ending))
        return fail_at(source.member.name, "{}", foreign.advice);
    return fail_at(source.member.name, "is in no format that import reads, expected {}",
                   known_formats());
  }
  traces::Peeked text(*head, source.text);
  auto file = (*importer)->read({source.member, text, source.file_bytes});
  if (!file) return tl::unexpected(file.error());
  file->path = source.member.name;
  imported.files.push_back(std::move(*file));
  return {};
}

Bytes size_of(const std::string& path) {
  std::error_code error;
  auto bytes = std::filesystem::file_size(path, error);
  if (error) bytes = std::filesystem::file_size(path.substr(0, path.find('!')), error);
  return error ? 0 : static_cast<Bytes>(bytes);
}

// The raw recording of a process that was killed in its first moments.
bool has_recorded_nothing(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return false;  // a pipe is read once
  std::ifstream file(path, std::ios::binary);
  std::string head(std::size_t{1} << 10, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  if (head.empty()) return file.eof() && path.ends_with(".sqlite");
  return profiler::is_raw_recording(head) && !profiler::has_begun(path);
}

Result<ImportedPath> import_path(const std::string& path) {
  ImportedPath imported;
  const Status status =
      traces::visit_texts(path, [&](const traces::TextMember& member, traces::TextSource& text) {
        return import_member({member, text, size_of(path)}, imported);
      });
  if (!status) return tl::unexpected(status.error());
  if (imported.files.empty())
    return fail_at(path, "has no member in a format that import reads, expected {}",
                   known_formats());
  if (!imported.unknown.empty())
    imported.files.front().warnings.push_back(
        fmt::format("{}: {} members are in no format that import reads, and were left: {}", path,
                    imported.unknown.size(), imported.unknown.front()));
  return imported;
}

void write_rows(JsonWriter& json, const run::RecordedRows& rows) {
  json.key("rows").begin_object().field("read", rows.read).field("kept", rows.kept);
  write_counts(json, "unused", rows.unused);
  json.end_object();
}

}  // namespace

Result<std::vector<ImportedFile>> import_files(const std::vector<std::string>& paths) {
  constexpr const char* kNothing = "its process was killed before it recorded anything";
  std::vector<char> is_left(paths.size());
  in_parallel(paths.size(), [&](std::size_t i) { is_left[i] = has_recorded_nothing(paths[i]); });
  std::vector<std::string> kept, left;
  for (std::size_t i = 0; i < paths.size(); ++i) (is_left[i] ? left : kept).push_back(paths[i]);
  if (kept.empty() && !left.empty()) return fail_at(left.front(), kNothing);
  std::vector<Result<ImportedPath>> read(kept.size(), ImportedPath());
  in_parallel(kept.size(), [&](std::size_t i) { read[i] = import_path(kept[i]); });
  std::vector<ImportedFile> files;
  for (auto& path : read) {
    if (!path) return tl::unexpected(path.error());
    std::move(path->files.begin(), path->files.end(), std::back_inserter(files));
  }
  for (const std::string& path : left)
    files.front().warnings.push_back(fmt::format("{}: {}, and is left out", path, kNothing));
  return files;
}

Status check_spans(const std::vector<ImportedFile>& files) {
  for (const ImportedFile& file : files)
    if (file.recording)
      if (const auto all = rebuild::window_of(*file.recording, std::nullopt); !all)
        return tl::unexpected(all.error());
  return {};
}

bool begins_recorded_run(std::string_view head) {
  const auto* const importer =
      std::find_if(kImporters.begin(), kImporters.end(),
                   [&](const Importer* known) { return known->is_format(head); });
  return importer != kImporters.end() && (*importer)->records_runs;
}

std::string to_json(const std::vector<ImportedFile>& files) {
  const auto write = [](JsonWriter& json, const ImportedFile& file) {
    file.write_json(json);
    if (file.read) write_rows(json, *file.read);
    write_counts(json, "dropped", file.dropped);
    json.key("warnings").begin_array();
    for (const std::string& warning : file.warnings) json.value(warning);
    json.end_array();
  };
  JsonWriter json;
  json.begin_object();
  if (files.size() != 1 || !files.front().has_schema) json.field("schema", kImportSchema);
  if (files.size() == 1) {
    json.field("source", files.front().path);
    write(json, files.front());
  } else {
    json.key("files").begin_object();
    for (const ImportedFile& file : files) {
      json.key(file.path).begin_object();
      write(json, file);
      json.end_object();
    }
    json.end_object();
  }
  json.end_object();
  return json.text() + "\n";
}

}  // namespace foregather::tasks
