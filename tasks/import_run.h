// Imported recordings as a run in a database.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "tasks/import.h"

namespace foregather::tasks {

/// Writes the recordings of the files, one a rank, as one measured run to a new database; the name
/// of the run is that of the first file without folder and endings. Returns warnings. Errors: a
/// file that is no recording (a program: a Thunder, Chakra or execution trace), is the database
/// itself, or has no device work.
Result<std::vector<std::string>> import_run(const std::vector<ImportedFile>& files,
                                            std::optional<std::int64_t> step,
                                            const std::string& database);

}  // namespace foregather::tasks
