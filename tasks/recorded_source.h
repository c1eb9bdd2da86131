// Recorded runs of other tools as sources of a prediction.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/rebuild/rebuild.h"
#include "core/run/rows.h"

namespace foregather::tasks {

/// Is this RUN.db or RUN.db:NAME, or does the file, unpacked, or any member of an archive,
/// begin as a recorded run of a tool that import reads? Errors: a file that cannot be read.
Result<bool> is_recorded(const std::string& path);

/// Does the file begin as the timeline of a pipeline, which is one rank and one step as a run, and
/// the job that it is as a prediction? False: it cannot be read, too.
bool is_timeline(const std::string& path);

/// What a reader of a run must know: how its recording ended, unless it is complete, and what
/// whoever made it said of it.
std::vector<std::string> warnings_about(const run::RunInfo& about, const std::string& location);

/// That events of its files were damaged; nothing where none was.
std::optional<std::string> warning_of(const run::EventCounts& dropped, const std::string& location);

struct RecordedFiles {
  std::vector<std::shared_ptr<const run::Recording>> recordings;
  std::string device;         ///< name of the GPU that recorded them; empty: not said
  std::string other_device;   ///< of one that is not `device`; empty: all are
  std::string other_source;   ///< of that one
  bool are_runs = false;      ///< our own, else files of other tools
  bool is_predicted = false;  ///< one of them is a prediction
  std::vector<std::string> warnings;
  std::vector<std::string> step_warnings;  ///< of runs whose steps are taken as one
};

/// Reads the files, one recording a rank, or the runs, one a rank class; `step` chooses that of a
/// run. Errors: those of import_files() and store::read_run(), a file that is no recorded run, runs
/// beside other files.
Result<RecordedFiles> read_recorded(const std::vector<std::string>& paths,
                                    std::optional<std::int64_t> step);

struct RecordedSource {
  rebuild::Rebuilt rebuilt;
  std::string device;         ///< name of the GPU that recorded it; empty: not said
  bool is_predicted = false;  ///< some of it is a prediction
};

/// Reads the files, one recording a rank, or the runs, one a rank class, and rebuilds their
/// schedule. Of a predicted run the steady step replays. Errors: those of import_files(),
/// store::read_run() and rebuild(), a file without device work to replay.
Result<RecordedSource> load_recorded(const std::vector<std::string>& paths,
                                     std::optional<std::int64_t> step);

}  // namespace foregather::tasks
