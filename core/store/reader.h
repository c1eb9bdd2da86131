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

/// Does it begin like one of ours? 72 bytes tell.
bool is_run_database(std::string_view content);
/// Is this RUN.db or RUN.db:NAME?
bool is_run(const std::string& location);

/// Names of the runs of a database, in the order in which they were written.
Result<std::vector<std::string>> run_names(const std::string& path);

/// Reads "RUN.db" (which must hold one run) or "RUN.db:NAME". The content is checked row by row:
/// ids without gaps, references inside their tables, known enumerators. Errors: no database of
/// ours, a newer version, a damaged one, an unknown name (the names are listed).
Result<run::Run> read_run(const std::string& location);

/// What read_run() says about the run as a whole, without reading its rows.
Result<run::RunInfo> read_about(const std::string& location);

/// Is it a database of measured runs and of nothing else? What cannot be read is none.
bool holds_measured_alone(const std::string& path);

/// Is it a database with a measured run that has device work? What cannot be read is none.
bool holds_measured_work(const std::string& path);

/// The comparisons of a database, in the order in which they were written; checked like runs.
Result<std::vector<run::Comparison>> read_comparisons(const std::string& path);

}  // namespace foregather::store
