// The use case of `foregather record`: a command under the recorder, and what it recorded as a run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "tasks/import_run.h"

namespace foregather::tasks {

struct RecordOptions {
  std::vector<std::string> command;
  std::string database = "run.db";
  bool is_default = false;  ///< nobody named it: only a recording without device work is replaced
  // As on the command line; empty: the default.
  std::string kinds, delay, duration, range, steps, max_size;
  bool host_only = false;
};

/// Of all processes that are recorded, so far.
struct RecordProgress {
  std::int64_t processes = 0, records = 0, dropped = 0;
  Bytes bytes = 0;
};

struct Recorded {
  int exit_code = 0;  ///< of the command
  RecordProgress total;
  /// The run in the database; an error: there is none, and the raw recordings are kept.
  Result<ImportedRun> run;
  std::string raw_folder;  ///< empty: there are none, or they went into the run and are removed
};

/// Runs the command with the injection library in its environment and that of its children: each
/// process writes a raw recording into DATABASE.raw, a folder for its owner alone, which becomes
/// the database at the end. `tell` takes lines for a person, `show` the progress. Errors: bad
/// options, a folder of an earlier recording, an unwritable place, no injection library, a command
/// that cannot be started.
Result<Recorded> record(const RecordOptions& options,
                        const std::function<void(const std::string&)>& tell,
                        const std::function<void(const RecordProgress&)>& show);

/// The path of the library; empty: it was not built or not installed.
std::string injection_library();

/// How it is had where it is missing.
inline constexpr std::string_view kRecorderFix =
    "build the CMake target foregather_inject ('./dev run' does) where libsqlite3.a is (apt-get "
    "install libsqlite3-dev)";

}  // namespace foregather::tasks
