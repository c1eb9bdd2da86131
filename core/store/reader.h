// Runs out of a database.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/run/comparison.h"
#include "core/run/run.h"

namespace foregather::store {

/// Does the file begin like an SQLite database?
bool is_database(std::string_view content);

/// Names of the runs of a database, in the order in which they were written.
Result<std::vector<std::string>> run_names(const std::string& path);

/// Reads "RUN.db" (which must hold one run) or "RUN.db:NAME". The content is checked row by row:
/// ids without gaps, references inside their tables, known enumerators. Errors: no database of
/// ours, a newer version, a damaged one, an unknown name (the names are listed).
Result<run::Run> read_run(const std::string& location);

/// The comparisons of a database, in the order in which they were written; checked like runs.
Result<std::vector<run::Comparison>> read_comparisons(const std::string& path);

}  // namespace foregather::store
