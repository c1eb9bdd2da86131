// The use case of `foregather import`: what do these files of other tools hold?
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/json_writer.h"
#include "core/base/result.h"
#include "core/run/recording.h"

namespace foregather::traces {
struct Snapshot;
}

namespace foregather::tasks {

/// One file, or one member of an archive.
struct ImportedFile {
  std::string path;  ///< "FILE!MEMBER" for a member
  std::string what;  ///< "Thunder trace of computation"
  /// For a person: what, how much, a note.
  std::vector<std::array<std::string, 3>> rows;
  /// Its fields of `import --json`, into an open object.
  std::function<void(JsonWriter&)> write_json;
  bool has_schema = false;  ///< one of those fields is "schema", and is the file's
  std::shared_ptr<const run::Recording> recording;   ///< null: a program, no recorded run
  std::shared_ptr<const traces::Snapshot> snapshot;  ///< of memory: a run of its own
  std::optional<run::RecordedRows> read;             ///< of a recorded run
  run::EventCounts dropped;                          ///< reason, rows
  std::vector<std::string> warnings;
};

/// Reads every file, archives member by member, several files in parallel. Members of an archive
/// that are in no known format are counted in a warning; so is a raw recording of a process that
/// was killed before it recorded anything, beside others. Errors: a file that cannot be read, or is
/// in no format that import knows; nothing was recorded.
Result<std::vector<ImportedFile>> import_files(const std::vector<std::string>& paths);

/// Of figures of whole files. Errors: a recording with a damaged time, see run::check_span().
Status check_spans(const std::vector<ImportedFile>& files);

/// Is this the beginning, at most 64 KiB, of a recorded run?
bool begins_recorded_run(std::string_view head);

/// The JSON object of `import --json`, with a line end: one file's keys at the top level, of
/// several under `files` by path. See docs/formats.md.
std::string to_json(const std::vector<ImportedFile>& files);

}  // namespace foregather::tasks
