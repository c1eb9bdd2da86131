// Imported recordings as a run in a database.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/rebuild/measured_run.h"
#include "tasks/import.h"
#include "tasks/summary.h"

namespace foregather::tasks {

/// The recordings of the files, one a rank, as one measured run; its name is that of the first file
/// without folder and endings. Errors: a file that is no recording (a program: a Thunder, Chakra or
/// execution trace) or has no device work.
Result<rebuild::MeasuredRun> recorded_run(const std::vector<ImportedFile>& files,
                                          std::optional<std::int64_t> step);

struct RankClock {
  std::uint32_t rank = 0;
  std::optional<ClockFigures> clock;  ///< absent: it could not be compared with the others
};

struct ImportedRun {
  std::vector<RankClock> clocks;  ///< of several recordings
  std::vector<std::string> warnings;
};

/// Writes that run to a new database; of memory snapshots a run each, the recorded window. Errors
/// also: a file is the database itself; snapshots beside other recordings; those of
/// examine_snapshot().
Result<ImportedRun> import_run(const std::vector<ImportedFile>& files,
                               std::optional<std::int64_t> step, const std::string& database);

}  // namespace foregather::tasks
